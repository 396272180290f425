# The sanitizers' own handlers wait for what this test does to memory.
if(VARVE_SANITIZE)
  set_tests_properties(found_unmapped_region PROPERTIES DISABLED TRUE)
endif()
