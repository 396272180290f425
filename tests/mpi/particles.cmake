# A list that moves and grows, killed and started again (particles.sh).
foreach(flavour ${flavours})
  varve_mpi_test(mpi_particles_${flavour} particles.sh ${flavour} LABELS safety TIMEOUT 300
                 ARGS $<TARGET_FILE:example_particles_${flavour}>)
endforeach()
