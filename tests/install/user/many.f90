program many
  use mpi_f08
  use varve
  implicit none
  type(varve_session) :: s
  integer, target :: x(3)
  integer :: step, rank, ranks
  logical :: found
  character(len=1000) :: store
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, store)
  call varve_open_mpi(s, MPI_COMM_WORLD, store, "many")
  x = rank
  call varve_protect(s, "x", x, first=[3*rank + 1], global=[3*ranks])
  call varve_restart(s, step, found)
  if (any(x /= rank)) error stop "another array"
  if (found .and. rank == 0) print "(a, i0, a, i0, a)", "version ", step, " came back on ", ranks, " ranks"
  if (.not. found) call varve_checkpoint(s, 7)
  call varve_close(s)
  call MPI_Finalize()
end program many
