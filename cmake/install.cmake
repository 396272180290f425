# What `cmake --install` puts where. Nothing in it names the prefix: the tree may be moved as a whole.
include(CMakePackageConfigHelpers)

set(libraries varve varve_static)
set(mpi_folders "")
if(TARGET varve_mpi)
  list(APPEND libraries varve_mpi varve_mpi_static)
  get_target_property(mpi_folders varve_mpi_headers INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT mpi_folders)
    set(mpi_folders "")
  endif()
  set_target_properties(varve_mpi PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
if(TARGET varve_env)
  list(APPEND libraries varve_env varve_env_static)
  set_target_properties(varve_env PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
if(TARGET varve_preload)
  list(APPEND libraries varve_preload)
endif()
if(TARGET varve_cl)
  list(APPEND libraries varve_cl)
  set_target_properties(varve_cl PROPERTIES INSTALL_RPATH "$ORIGIN")
endif()
foreach(target varve_fortran varve_fortran_mpi varve_veloc)
  if(TARGET ${target})
    list(APPEND libraries ${target})
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
  endif()
endforeach()
if(TARGET varve_fortran) # a module file is for one compiler
  list(APPEND libraries varve_fortran_static)
  install(FILES ${PROJECT_BINARY_DIR}/fortran/modules/varve.mod DESTINATION ${CMAKE_INSTALL_LIBDIR}/varve/fortran)
endif()
file(RELATIVE_PATH to_libraries ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
set_target_properties(varve_cli PROPERTIES INSTALL_RPATH "$ORIGIN/${to_libraries}")

install(TARGETS ${libraries} varve_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(PROGRAMS tools/varve-read.py DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME varve-read)
install(PROGRAMS tools/varve-slurm.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME varve-slurm)
install(PROGRAMS tools/varve-job.sh DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME varve-job)
install(FILES tools/job-parts.sh DESTINATION share/varve) # these two look for it there, from their own folder

file(GLOB headers CONFIGURE_DEPENDS include/varve/*.h include/varve/*.hpp)
if(NOT TARGET varve_mpi)
  list(FILTER headers EXCLUDE REGEX "/varve_mpi\\.h$")
endif()
if(NOT TARGET varve_env)
  list(FILTER headers EXCLUDE REGEX "/varve_env\\.h$")
endif()
if(NOT TARGET varve_cl)
  list(FILTER headers EXCLUDE REGEX "/varve_cl\\.h$")
endif()
install(FILES ${headers} ${PROJECT_BINARY_DIR}/include/varve/varve_version.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/varve)

if(TARGET varve_veloc) # in a folder of its own: it has the name of another library's header
  install(FILES veloc/veloc.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/varve/veloc)
endif()

# The Python package: it finds the library above it. Where Python looks by itself depends on the system; PYTHONPATH helps.
if(VARVE_PYTHON)
  set(VARVE_PYTHON_FOLDER lib/python3/dist-packages CACHE STRING "where the Python package is installed, below the prefix")
  install(DIRECTORY python/varve DESTINATION ${VARVE_PYTHON_FOLDER} FILES_MATCHING PATTERN "*.py" PATTERN "py.typed"
          PATTERN "__pycache__" EXCLUDE)
endif()

# What a program needs beside libvarve.a, as far as it was built in.
set(static_packages "")
set(static_libraries "")
foreach(codec fpzip zfp)
  if(TARGET ${codec}::${codec})
    list(APPEND static_packages ${codec})
    string(APPEND static_libraries " -l${codec}")
  endif()
endforeach()

# pkg-config
file(RELATIVE_PATH to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(pages varve)
if(TARGET varve_mpi)
  list(APPEND pages varve-mpi)
endif()
if(TARGET varve_env)
  list(APPEND pages varve-env)
endif()
if(TARGET varve_cl)
  list(APPEND pages varve-cl)
endif()
if(TARGET varve_fortran)
  list(APPEND pages varve-fortran)
endif()
if(TARGET varve_fortran_mpi)
  list(APPEND pages varve-fortran-mpi)
endif()
if(TARGET varve_veloc)
  list(APPEND pages varve-veloc)
endif()
foreach(page ${pages})
  configure_file(cmake/${page}.pc.in cmake/${page}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/cmake/${page}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# find_package(varve). Before 1.0 a minor version may break the API.
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/varve)
configure_package_config_file(cmake/varve-config.cmake.in cmake/varve-config.cmake INSTALL_DESTINATION ${package_folder}
                              PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(cmake/varve-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/varve-config.cmake ${PROJECT_BINARY_DIR}/cmake/varve-config-version.cmake
        DESTINATION ${package_folder})

# Documents and examples
file(GLOB documents CONFIGURE_DEPENDS docs/*.md docs/*.svg)
file(GLOB examples CONFIGURE_DEPENDS examples/*.c examples/*.cpp examples/*.f90 examples/*.py)
install(FILES README.md CHANGES.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES ${documents} DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs)
install(FILES ${examples} DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples)

if(VARVE_FAULTS)
  install(CODE "message(STATUS \"This build has fault points for tests; -DVARVE_FAULTS=OFF leaves them out.\")")
endif()
