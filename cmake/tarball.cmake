# Run by cpack for a tarball of the sources: only names, contents and the right to execute count.
if(DEFINED ENV{SOURCE_DATE_EPOCH})
  set(time $ENV{SOURCE_DATE_EPOCH})
else()
  string(TIMESTAMP time "%s" UTC)
endif()
set(tarball ${CPACK_TOPLEVEL_DIRECTORY}/${CPACK_PACKAGE_FILE_NAME}.tar.gz)
execute_process(COMMAND ${CMAKE_COMMAND} -E env LC_ALL=C tar --sort=name --format=ustar --mtime=@${time} --owner=0 --group=0
                        --numeric-owner --mode=u+rw,go+r,go-w,a+X -C ${CPACK_TEMPORARY_DIRECTORY}
                        --transform=s,^\\.,${CPACK_PACKAGE_FILE_NAME},S
                        -I "gzip -n9" -cf ${tarball} .
                RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "tar could not make ${tarball}")
endif()
set(CPACK_EXTERNAL_BUILT_PACKAGES ${tarball})
