! An error that nobody asks for stops the program with its text: stops FOLDER
program stops
  use varve
  implicit none
  type(varve_session) :: s
  real, target :: x(4, 4)
  character(len=4096) :: folder
  call get_command_argument(1, folder)
  x = 1
  call varve_open(s, trim(folder)//"/stops", "stops")
  call varve_protect(s, "rows", x(1:2, :))
  print "(a)", "it went on"
end program stops
