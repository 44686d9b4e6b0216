# What `make install` puts where. The folder can be moved afterwards: every path is relative.

include(CMakePackageConfigHelpers)

install(TARGETS troupe troupe_static EXPORT TroupeTargets)
install(TARGETS troupe-worker DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/troupe)
install(DIRECTORY include/troupe DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TROUPE_BUILD_CLI)
  install(TARGETS troupe-command)
  install(FILES docs/man/troupe.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# What the kernels of the cutlass actor are compiled from: our templates, and those of CUTLASS's headers
# that they include, with their licence, where `make cutlass` has fetched them.
set(cutlass_dir ${CMAKE_INSTALL_DATADIR}/troupe/cutlass)
install(FILES src/actors/cutlass/abi.h DESTINATION ${cutlass_dir})
install(DIRECTORY src/actors/cutlass/templates src/actors/cutlass/include DESTINATION ${cutlass_dir})
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

# pkg-config --cflags --libs troupe
configure_file(cmake/troupe.pc.in ${PROJECT_BINARY_DIR}/troupe.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/troupe.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
