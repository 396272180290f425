set_tests_properties(found_unlock PROPERTIES TIMEOUT 120 PROCESSORS 1) # it waits for heartbeats
