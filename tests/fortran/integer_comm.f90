! The module mpi, whose communicators are integers; a list that each rank has allocated by the restart.
!
!     mpirun -n N integer_comm STORE      the first run saves, the second gets it back
program integer_comm
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use mpi
  use varve
  implicit none
  type(varve_session) :: s
  real(real64), allocatable, target :: list(:)
  integer :: rank, ranks, code, half, step, stat, i
  character(len=4096) :: store
  character(len=300) :: why
  logical :: found
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call MPI_Comm_dup(MPI_COMM_WORLD, half, code)
  call get_command_argument(1, store)
  call varve_open_mpi(s, 1.5, store, "list", stat=stat, errmsg=why)
  if (stat == 0 .or. index(why, "comm is neither") == 0) error stop "a real is no communicator"
  call varve_open_mpi(s, half, store, "list", "keep=2")
  step = 0
  call varve_restart_alloc(s, step, found)
  if (found) then
    call varve_take(s, "list", list)
  else
    list = [(1000d0*rank + i, i=1, 10*(rank + 1))]
    call varve_protect(s, "list", list)
  end if
  if (size(list) /= 10*(rank + 1)) error stop "a list of another length"
  if (any(list /= [(1000d0*rank + i, i=1, 10*(rank + 1))])) error stop "another list"
  if (found .and. rank == 0) print "(a, i0, a, i0, a)", "version ", step, " came back on ", ranks, " ranks"
  call varve_checkpoint(s, step + 1)
  call varve_close(s)
  call MPI_Finalize(code)
end program integer_comm
