! heat2d.c in Fortran: heat spreading over a plate, on many ranks, and it survives being killed.
!
!     mpirun -n 4 heat2d [--rows N] [--columns N] [--steps N] [--every N] [--delay MICROSECONDS] [--out FILE] STORE
!
! Each rank has a band of rows in an allocatable array: field(column, row), since in Fortran the first index runs
! fastest. In the store that is an array of rows by columns, as heat2d.c writes it, and either program goes on from the
! checkpoints of the other. The field in --out has the same bits however often the job was killed.
program heat2d
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
  use mpi_f08
  use varve
  implicit none

  interface
    function usleep(microseconds) bind(c) result(code)
      import :: c_int
      integer(c_int), value :: microseconds
      integer(c_int) :: code
    end function usleep
  end interface

  integer :: rows = 1024, columns = 1024, steps = 1000, every = 100, delay_us = 0
  character(len=4096) :: store = "", out_file = ""
  integer :: rank, ranks, first, mine, step, level
  real(real64), allocatable, target :: field(:, :), after(:, :) ! now, and one step later; rows 0 and mine + 1 are the neighbours'
  integer(int64), target :: plate(2)                            ! saved too: what is restored must be the same plate
  type(varve_session) :: session

  call MPI_Init_thread(MPI_THREAD_MULTIPLE, level)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call read_arguments()
  first = first_row_of(rank)
  mine = first_row_of(rank + 1) - first
  plate = [rows, columns]
  call begin()
  call varve_open_mpi(session, MPI_COMM_WORLD, store, "heat2d") ! an error stops the job with its text
  call restart()
  do while (step < steps)
    call step_once()
    step = step + 1
    if (mod(step, every) == 0) call save_step()
  end do
  if (out_file /= "") call write_field()
  call varve_close(session)
  if (rank == 0) print "(a, i0, a)", "done: ", steps, " steps"
  call MPI_Finalize()

contains

  ! Counted from 0, as the plate of heat2d.c.
  integer function first_row_of(whose)
    integer, intent(in) :: whose
    first_row_of = int(int(rows, int64)*whose/ranks)
  end function first_row_of

  ! Hot above the first row, cold below the last; the first and the last column never change.
  subroutine begin()
    integer :: row, column, place
    allocate (field(columns, 0:mine + 1))
    do row = 0, mine + 1
      place = first + row - 1
      do column = 1, columns
        field(column, row) = mod(int(place, int64)*37 + (column - 1)*17_int64, 100_int64)
        if (place < 0) field(column, row) = 100
        if (place >= rows) field(column, row) = 0
      end do
    end do
    after = field
  end subroutine begin

  subroutine trade_edges()
    integer :: above, below
    above = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    below = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    call MPI_Sendrecv(field(:, 1), columns, MPI_DOUBLE_PRECISION, above, 0, field(:, mine + 1), columns, &
                      MPI_DOUBLE_PRECISION, below, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
    call MPI_Sendrecv(field(:, mine), columns, MPI_DOUBLE_PRECISION, below, 0, field(:, 0), columns, &
                      MPI_DOUBLE_PRECISION, above, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
  end subroutine trade_edges

  subroutine step_once()
    real(real64), allocatable, target :: old(:, :)
    integer :: row, column
    integer(c_int) :: ignored
    call trade_edges()
    do row = 1, mine
      after(1, row) = field(1, row)
      after(columns, row) = field(columns, row)
      do column = 2, columns - 1
        after(column, row) = 0.25_real64*((field(column, row - 1) + field(column, row + 1)) + &
                                          (field(column - 1, row) + field(column + 1, row)))
      end do
    end do
    call move_alloc(field, old) ! the two change places, and nothing is copied
    call move_alloc(after, field)
    call move_alloc(old, after)
    if (delay_us > 0) ignored = usleep(int(delay_us, c_int))
  end subroutine step_once

  ! The two fields change places in every step, so tell where the present one lies: these rows of the whole plate.
  subroutine protect()
    call varve_protect(session, "temperature", field(:, 1:mine), first=[1, first + 1], global=[columns, rows])
    call varve_protect(session, "shape", plate)
    call varve_distribute(session, "shape", VARVE_REPLICATED) ! so any number of ranks may restart from it
  end subroutine protect

  subroutine restart()
    logical :: found
    step = 0
    call protect()
    call varve_restart(session, step, found)
    if (.not. found) return
    if (any(plate /= [rows, columns])) error stop "heat2d: what is stored is a plate of another shape"
    if (step > steps) error stop "heat2d: what is stored is beyond the last step"
    if (rank == 0) print "(a, i0)", "restarted from step ", step
    flush (output_unit)
  end subroutine restart

  ! A job goes on without a checkpoint, but not when another job has taken its name: both would write the same files.
  subroutine save_step()
    character(len=512) :: reason
    integer :: stat
    call protect()
    call varve_checkpoint(session, step, stat, reason)
    if (stat == 0) call varve_wait(session, stat, reason) ! "saved" is said of what survives
    if (stat == VARVE_FENCED) error stop "heat2d: "//trim(reason)
    if (rank /= 0) return
    if (stat == 0) print "(a, i0, a)", "step ", step, " saved"
    if (stat /= 0) write (error_unit, "(a, i0, 2a)") "heat2d: step ", step, " not saved: ", trim(reason)
    flush (output_unit)
  end subroutine save_step

  ! Rank 0 writes its rows and then those of the others, as they come.
  subroutine write_field()
    integer :: whose, row, unit
    if (rank /= 0) then
      do row = 1, mine
        call MPI_Send(field(:, row), columns, MPI_DOUBLE_PRECISION, 0, 1, MPI_COMM_WORLD)
      end do
      return
    end if
    open (newunit=unit, file=trim(out_file), access="stream", form="unformatted", status="replace")
    write (unit) field(:, 1:mine)
    do whose = 1, ranks - 1
      do row = 1, first_row_of(whose + 1) - first_row_of(whose)
        call MPI_Recv(after(:, 1), columns, MPI_DOUBLE_PRECISION, whose, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        write (unit) after(:, 1)
      end do
    end do
    close (unit)
  end subroutine write_field

  subroutine read_arguments()
    character(len=4096) :: name, value
    integer :: at, stat
    stat = 0
    do at = 1, command_argument_count() - 1, 2
      call get_command_argument(at, name)
      call get_command_argument(at + 1, value)
      select case (name)
      case ("--rows"); read (value, *, iostat=stat) rows
      case ("--columns"); read (value, *, iostat=stat) columns
      case ("--steps"); read (value, *, iostat=stat) steps
      case ("--every"); read (value, *, iostat=stat) every
      case ("--delay"); read (value, *, iostat=stat) delay_us
      case ("--out"); out_file = value
      case default; stat = 1
      end select
      if (stat /= 0) error stop "heat2d: there is no such option, or this value is not allowed: "//trim(name)
    end do
    if (mod(command_argument_count(), 2) == 1) call get_command_argument(command_argument_count(), store)
    if (store == "" .or. store(1:1) == "-" .or. rows < ranks .or. columns < 3 .or. steps < 0 .or. every < 1) &
      error stop "usage: heat2d [--rows N] [--columns N] [--steps N] [--every N] [--delay N] [--out FILE] STORE"
  end subroutine read_arguments
end program heat2d
