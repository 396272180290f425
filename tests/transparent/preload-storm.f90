! A small storm: pressure and wind on a grid that wraps around. Nothing is named to Varve: all arrays are ALLOCATABLE,
! and come back because `varve run` has started the program.
!
!     varve run -- preload-storm STORE STEPS KILL_AT
program preload_storm
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use varve
  implicit none

  integer, parameter :: nx = 160, ny = 120
  real(real64), allocatable :: pressure(:, :), east(:, :), north(:, :)
  real(real64), allocatable :: after(:, :)
  integer(int64), allocatable :: hits(:, :)
  character(len=4096) :: store, word
  integer :: steps, kill_at, code
  integer(int64) :: step
  logical :: is_found
  type(varve_session) :: session

  call get_command_argument(1, store)
  call get_command_argument(2, word)
  read (word, *) steps
  call get_command_argument(3, word)
  read (word, *) kill_at
  call varve_open(session, trim(store), "storm")
  call begin()
  step = -1
  call varve_restart(session, step, found=is_found) ! an error stops the program with its text
  print "(a, i0)", "begins at ", step + 1
  flush (6)
  do while (step + 1 < steps)
    step = step + 1
    call advance()
    if (mod(step, 4_int64) == 0) call varve_checkpoint(session, step)
    if (step == kill_at) then
      call varve_wait(session)
      code = kill(getpid(), 9)
    end if
  end do
  call varve_close(session)
  print "(z16.16)", digest()

contains

  subroutine begin()
    integer :: x, y
    allocate (pressure(nx, ny), east(nx, ny), north(nx, ny), hits(nx, ny))
    allocate (after, mold=pressure)
    do y = 1, ny
      do x = 1, nx
        pressure(x, y) = 1013 + 20*sin(x*0.07_real64)*cos(y*0.05_real64)
        east(x, y) = cos(y*0.11_real64)
        north(x, y) = sin(x*0.13_real64)
      end do
    end do
    after = pressure
    hits = 0
  end subroutine begin

  ! A temporary array in every step, and two arrays that change places.
  subroutine advance()
    real(real64), allocatable :: change(:, :), other(:, :)
    change = 0.1_real64*(cshift(pressure, 1, 1) + cshift(pressure, -1, 1) + cshift(pressure, 1, 2) &
                         + cshift(pressure, -1, 2) - 4*pressure)
    after = pressure + change - 0.01_real64*(east + north)
    east = 0.999_real64*east + 0.001_real64*(cshift(pressure, 1, 1) - pressure)
    north = 0.999_real64*north + 0.001_real64*(cshift(pressure, 1, 2) - pressure)
    where (after > pressure) hits = hits + 1
    allocate (other, source=after)
    pressure = other
  end subroutine advance

  integer(int64) function digest()
    integer :: x, y
    digest = 0
    do y = 1, ny
      do x = 1, nx
        digest = ieor(ishftc(digest, 5), transfer(pressure(x, y), digest))
        digest = ieor(ishftc(digest, 7), transfer(east(x, y), digest))
        digest = ieor(ishftc(digest, 11), transfer(north(x, y), digest) + hits(x, y))
      end do
    end do
  end function digest
end program preload_storm
