# Jobs that are killed, or stopped, in the middle (kill-restart.py): a few runs of each kind; .ci/long has the campaign.
# The gate's TEST_SCALE leaves one run, on the first number of ranks: several.
# mpi_kill(kind flavour runs ranks)
function(mpi_kill kind flavour runs ranks)
  if(NOT TARGET varve_mpi_${flavour})
    return()
  endif()
  set(name mpi_kill_${kind}_${flavour})
  add_test(NAME ${name}
           COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/kill-restart.py --kill ${kind} --mpi ${flavour}
                   --heat2d $<TARGET_FILE:example_heat2d_${flavour}> --varve $<TARGET_FILE:varve_cli> --runs ${runs}
                   --ranks ${ranks})
  varve_test_properties(${name} LABELS safety TIMEOUT 600)
endfunction()

mpi_kill(one openmpi 6 4,1,2,8)
mpi_kill(all openmpi 4 4,1,2,8)
mpi_kill(stop openmpi 3 2,4)
mpi_kill(one mpich 2 2,1) # its ranks spin while they wait
