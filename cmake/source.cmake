# `cpack --config CPackSourceConfig.cmake` in the build, or `ninja package_source`, makes varve-VERSION.tar.gz of a clean checkout.
# With SOURCE_DATE_EPOCH set, it has the same bytes wherever and by whomever it is made (tests/packages/tarball.sh). CPack's own
# archives have the order of the folder and the name of the user.
set(CPACK_PACKAGE_NAME varve)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR TGZ)
set(CPACK_SOURCE_GENERATOR External)
set(CPACK_EXTERNAL_PACKAGE_SCRIPT ${PROJECT_SOURCE_DIR}/cmake/tarball.cmake)
set(CPACK_EXTERNAL_ENABLE_STAGING ON)
set(CPACK_SOURCE_PACKAGE_FILE_NAME varve-${PROJECT_VERSION})
# Builds in the sources are left out; the sources may lie in another build, as in tests/packages/tarball.sh.
string(REGEX REPLACE "([][+.*()^$?|\\])" "\\\\\\1" sources "${PROJECT_SOURCE_DIR}")
set(CPACK_SOURCE_IGNORE_FILES "/\\\\.git/" "/\\\\.git$" "^${sources}/build[^/]*/" "/__pycache__/" "~$")
include(CPack)
