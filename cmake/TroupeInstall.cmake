# What `make install` puts where. The folder can be moved afterwards: every path is relative.

include(CMakePackageConfigHelpers)

install(TARGETS troupe troupe_static EXPORT TroupeTargets)
install(TARGETS troupe-worker DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/troupe)
install(DIRECTORY include/troupe ${PROJECT_BINARY_DIR}/include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING
        PATTERN "*.h" PATTERN "*.hpp")
if(TROUPE_BUILD_CLI)
  install(TARGETS troupe-command)
  install(FILES docs/man/troupe.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  if(TARGET troupe-completions)
    install(FILES ${PROJECT_BINARY_DIR}/share/completions/troupe.bash
            DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME troupe)
    install(FILES ${PROJECT_BINARY_DIR}/share/completions/_troupe
            DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${PROJECT_BINARY_DIR}/share/completions/troupe.fish
            DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
  endif()
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What the kernels of the cutlass actor are compiled from: our templates, and those of CUTLASS's headers
# that they include, with their licence, where `make cutlass` has fetched them.
set(cutlass_dir ${CMAKE_INSTALL_DATADIR}/troupe/cutlass)
install(DIRECTORY src/actors/cutlass/templates src/actors/cutlass/shims DESTINATION ${cutlass_dir})
install(DIRECTORY build/cutlass/include/ DESTINATION ${cutlass_dir}/headers OPTIONAL)
install(FILES build/cutlass/LICENSE.txt DESTINATION ${cutlass_dir}/headers OPTIONAL)

# Kernels that were compiled ahead, where `make pack` has made them, and what they were made of.
install(FILES share/troupe/default-pack.json DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe)
install(FILES build/troupe-default.trpk DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe
        RENAME default.trpk OPTIONAL)
install(FILES build/troupe-kernels.trpk DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe
        RENAME kernels.trpk OPTIONAL)

# find_package(Troupe) -> Troupe::troupe, Troupe::troupe_static
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Troupe)
configure_package_config_file(cmake/TroupeConfig.cmake.in ${PROJECT_BINARY_DIR}/TroupeConfig.cmake
                              INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/TroupeConfig.cmake ${PROJECT_BINARY_DIR}/TroupeConfigVersion.cmake
        DESTINATION ${package_dir})
install(EXPORT TroupeTargets NAMESPACE Troupe:: DESTINATION ${package_dir})

# pkg-config [--static] --cflags --libs troupe. lib/troupe has libtroupe.a without the shared library
# beside it, which a linker would prefer.
foreach(name troupe troupe-libdir)
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/static)
file(CREATE_LINK ../libtroupe.a ${PROJECT_BINARY_DIR}/static/libtroupe.a SYMBOLIC)
install(FILES ${PROJECT_BINARY_DIR}/static/libtroupe.a DESTINATION ${CMAKE_INSTALL_LIBDIR}/troupe)
