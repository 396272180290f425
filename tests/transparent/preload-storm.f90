! A small storm: pressure and wind on a grid that wraps around. Nothing is named to Varve: all arrays are ALLOCATABLE,
! and come back because `varve run` has started the program.
!
!     varve run -- preload-storm STORE STEPS KILL_AT [NX NY EVERY [named]]
!
! NX and NY are the size of the grid, EVERY the steps between two checkpoints (0: none). With `named` its arrays have
! names. Then it says on standard error how many seconds its steps took, and how many of them varve_checkpoint.
program preload_storm
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use varve
  implicit none

  integer :: nx = 160, ny = 120, every = 4
  real(real64), allocatable, target :: pressure(:, :), east(:, :), north(:, :)
  real(real64), allocatable, target :: after(:, :)
  integer(int64), allocatable, target :: hits(:, :)
  character(len=4096) :: store, word
  integer :: steps, kill_at, code
  integer(int64) :: step, begun, called, now, rate, blocked = 0
  logical :: is_found
  type(varve_session) :: session

  call get_command_argument(1, store)
  call get_command_argument(2, word)
  read (word, *) steps
  call get_command_argument(3, word)
  read (word, *) kill_at
  call choose(4, nx)
  call choose(5, ny)
  call choose(6, every)
  call varve_open(session, trim(store), "storm")
  call begin()
  if (command_argument_count() > 6) call name_all()
  step = -1
  call varve_restart(session, step, found=is_found) ! an error stops the program with its text
  print "(a, i0)", "begins at ", step + 1
  flush (6)
  call system_clock(begun, rate)
  do while (step + 1 < steps)
    step = step + 1
    call advance()
    if (every > 0) then
      if (mod(step, int(every, int64)) == 0) then
        call system_clock(called)
        call varve_checkpoint(session, step)
        call system_clock(now)
        blocked = blocked + now - called
      end if
    end if
    if (step == kill_at) then
      call varve_wait(session)
      code = kill(getpid(), 9)
    end if
  end do
  call system_clock(now)
  if (command_argument_count() > 3) write (0, "(f0.4, 1x, f0.4)") seconds_of(now - begun), seconds_of(blocked)
  call varve_close(session)
  print "(z16.16)", digest()

contains

  subroutine choose(at, value)
    integer, intent(in) :: at
    integer, intent(inout) :: value
    if (command_argument_count() < at) return
    call get_command_argument(at, word)
    read (word, *) value
  end subroutine choose

  real(real64) function seconds_of(ticks)
    integer(int64), intent(in) :: ticks
    seconds_of = real(ticks, real64)/real(rate, real64)
  end function seconds_of

  subroutine name_all()
    call varve_protect(session, "pressure", pressure)
    call varve_protect(session, "east", east)
    call varve_protect(session, "north", north)
    call varve_protect(session, "after", after)
    call varve_protect(session, "hits", hits)
  end subroutine name_all

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

  ! Two temporary arrays in every step: each is freed at its end.
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
