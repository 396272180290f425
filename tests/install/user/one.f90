program one
  use varve
  implicit none
  type(varve_session) :: s
  integer, allocatable, target :: x(:, :)
  integer :: step
  logical :: found
  character(len=1000) :: store
  call get_command_argument(1, store)
  call varve_open(s, store, "one")
  step = 0
  call varve_restart_alloc(s, step, found)
  if (found) then
    call varve_take(s, "x", x)
    if (any(shape(x) /= [3, 2]) .or. x(3, 2) /= 7) error stop "another array"
    print "(a, i0, a)", "version ", step, " came back"
  else
    allocate (x(3, 2))
    x = 7
    call varve_protect(s, "x", x)
    call varve_checkpoint(s, 7)
  end if
  call varve_close(s)
end program one
