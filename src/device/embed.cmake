# cmake -DOUT=file.c -DIN=file.cl [-DINSTEAD=words -DWRITE=words] -P embed.cmake: the kernels as an array, so that the library needs no file at
# run time. Tests put other words in.
if(INSTEAD)
  file(READ ${IN} text)
  string(REPLACE "${INSTEAD}" "${WRITE}" changed "${text}")
  if(text STREQUAL changed)
    message(FATAL_ERROR "${IN} has nowhere ${INSTEAD}")
  endif()
  set(IN ${OUT}.cl)
  file(WRITE ${IN} "${changed}")
endif()
file(READ ${IN} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REPLACE "0x0a," "0x0a,\n" bytes "${bytes}")
file(WRITE ${OUT} "/* Made from the .cl files. */\n#include \"opencl_private.h\"\n\nconst unsigned char vv_cl_source[] = {\n"
                  "${bytes}};\nconst size_t vv_cl_source_size = sizeof vv_cl_source;\n")
