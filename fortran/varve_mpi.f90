! Sessions of MPI jobs: libvarve_fortran_mpi. Neither mpi nor mpi_f08 is used here, so one module file serves both, and
! every MPI.
submodule(varve) varve_mpi
  implicit none

  interface ! binding_mpi.h
    function c_open_mpi(comm, store, name, settings, session, error) bind(c, name="varve_fortran_open_mpi") result(code)
      import
      type(*), dimension(..), intent(in) :: comm
      character(kind=c_char), intent(in) :: store(*), name(*), settings(*)
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_open_mpi
  end interface

contains

  module procedure varve_open_mpi
    type(c_error) :: error
    integer(c_int) :: code
    character(len=:), allocatable :: wished
    wished = c_null_char
    if (present(settings)) wished = trim(settings)//c_null_char
    code = c_open_mpi(comm, trim(store)//c_null_char, trim(name)//c_null_char, wished, session, error)
    call varve_finish(code, error, stat, errmsg)
  end procedure varve_open_mpi

end submodule varve_mpi
