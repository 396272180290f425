# One rank that was asked for a checkpoint is enough.
foreach(flavour ${flavours})
  add_executable(asked-${flavour} asked.c)
  target_link_libraries(asked-${flavour} PRIVATE varve_mpi_${flavour})
  varve_mpi_test(mpi_asked_${flavour} asked.sh ${flavour} LABELS quick transparent TIMEOUT 120
                 ARGS $<TARGET_FILE:asked-${flavour}>)
endforeach()
