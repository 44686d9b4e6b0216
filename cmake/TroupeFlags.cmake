# Compiler flags of every target of this project.

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

# Debug: optimised a little, so that the numerical tests stay quick. Release: -O2 with symbols;
# assertions of the C library stay on in both, since a broken invariant must not go unnoticed.
# Clang 14 writes a DWARF 5 that valgrind 3.19, Debian 12's, refuses; every tool reads DWARF 4.
set(CMAKE_C_FLAGS_DEBUG "-O1 -g")
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  string(APPEND CMAKE_C_FLAGS_DEBUG " -gdwarf-4")
  string(APPEND CMAKE_C_FLAGS_RELEASE " -gdwarf-4")
endif()

set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

# "-D_GNU_SOURCE=", with an empty value, agrees with a plain "#define _GNU_SOURCE" in a file.
add_compile_options(-D_GNU_SOURCE= -pthread -fno-omit-frame-pointer
                    -Wall -Wextra -Wshadow -Wconversion)
if(TROUPE_WERROR)
  add_compile_options(-Werror)
endif()

# The sanitizers' flags; TROUPE_SANITIZE_FLAGS is also for targets of another language.
if(TROUPE_SANITIZE STREQUAL "address")
  set(TROUPE_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  set(TROUPE_SANITIZE_FLAGS -fsanitize=thread)
elseif(TROUPE_SANITIZE)
  message(FATAL_ERROR "TROUPE_SANITIZE=${TROUPE_SANITIZE}: expected nothing, address or thread")
endif()
if(TROUPE_SANITIZE)
  list(APPEND TROUPE_SANITIZE_FLAGS -g1) # enough for a report's lines, and sooner built
endif()
add_compile_options(${TROUPE_SANITIZE_FLAGS})
add_link_options(${TROUPE_SANITIZE_FLAGS})

# What makes sanitized programs start, end and link in half the time; tests run thousands of them. A
# program at a fixed address needs none of the relocations of UBSan's tables, which are megabytes. Each
# further runtime library is several megabytes of zeros that LeakSanitizer reads at each exit. Gold,
# where it is installed, links such tables faster than the default linker.
if(TROUPE_SANITIZE)
  include(CheckLinkerFlag)
  set(flags -fuse-ld=gold)
  if(TROUPE_SANITIZE STREQUAL "address")
    list(APPEND flags -no-pie -static-libubsan)
  endif()
  foreach(flag ${flags})
    string(MAKE_C_IDENTIFIER TROUPE_LINKS${flag} variable)
    check_linker_flag(C ${flag} ${variable})
    if(${variable})
      string(APPEND CMAKE_EXE_LINKER_FLAGS " ${flag}")
    endif()
  endforeach()
endif()
