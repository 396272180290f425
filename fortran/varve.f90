! Varve for Fortran: checkpoints for programs that run long.
!
!     use varve
!     type(varve_session) :: s
!     real(real64), allocatable, target :: t(:, :)
!     integer :: step
!     logical :: found
!     allocate (t(nx, ny))
!     step = 0
!     call varve_open(s, "ck", "heat")            ! a folder, and a name
!     call varve_protect(s, "temperature", t)     ! an array of any rank and kind, or a scalar
!     call varve_restart(s, step, found)          ! not found: a first run, and step is as it was
!     do while (step < last)
!       call compute(t)
!       step = step + 1
!       if (mod(step, 100) == 0) call varve_checkpoint(s, step)
!     end do
!     call varve_close(s)                         ! waits until the last checkpoint is durable
!
! The calls are those of varve.h, which explains them, and so do the pages of section 3. Every call takes stat and
! errmsg, as allocate does. Without stat, an error stops the program with its text.
!
! What is protected has the attribute target, contiguous elements, and stays where it is until it is protected again,
! unprotected, or the session is closed. Without target the compiler says that there is no specific subroutine.
!
! Dimensions: in the store the slowest comes first, as in C. t(nx, ny) is stored as an array of ny by nx, and `varve
! show`, exports and Python have it so; first and global are in the order of Fortran, and count from 1. Scalars are
! arrays of one. Characters are bytes, with one more dimension.
!
! gfortran 12 or later: Fortran 2018, with its C descriptors.
module varve
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_double_complex, c_float, c_float_complex, c_int, &
    c_int8_t, c_int16_t, c_int32_t, c_int64_t, c_null_char, c_null_ptr, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  implicit none
  private

  ! A session. Do not copy it.
  type, bind(c), public :: varve_session
    private
    type(c_ptr) :: session = c_null_ptr
    type(c_ptr) :: held = c_null_ptr
  end type varve_session

  integer(int64), parameter, public :: VARVE_LATEST = -1_int64 ! the newest checkpoint that is whole

  ! What stat may be, beside 0 and the negative errno of the system.
  integer, parameter, public :: VARVE_NO_CHECKPOINT = -20001, VARVE_CORRUPT = -20002, VARVE_UNKNOWN_FORMAT = -20003, &
    VARVE_BUSY = -20004, VARVE_FENCED = -20005, VARVE_MISMATCH = -20006, VARVE_NO_STORE = -20007, &
    VARVE_FORGOTTEN = -20008, VARVE_SETTING = -20009, VARVE_UNSUPPORTED = -20010, VARVE_DISAGREED = -20011, &
    VARVE_EARLIER_FAILED = -20012, VARVE_KEY = -20013

  ! What becomes of a region on another number of ranks (varve_distribute).
  integer, parameter, public :: VARVE_BY_DIMS = 0, VARVE_JOINED = 1, VARVE_REPLICATED = 2, VARVE_BY_RANK = 3, &
    VARVE_DROPPED = 4

  public :: varve_open, varve_open_mpi, varve_close
  public :: varve_protect, varve_protect_bytes, varve_unprotect, varve_distribute, varve_attribute
  public :: varve_alloc, varve_free
  public :: varve_checkpoint, varve_wait, varve_release, varve_test, varve_need, varve_should_exit, varve_time_left
  public :: varve_restart, varve_restart_alloc, varve_take, varve_reject
  public :: varve_finish ! not for programs: gfortran hides what is private from submodules in other libraries

  ! Protect an array of any rank, or a scalar, of these types; others with varve_protect_bytes. A pointer is asked for, so
  ! the compiler wants the attribute target, and makes no copies.
  !
  ! With first and global it is this rank's block of a larger array: the indices of its first element there, from 1 on,
  ! and the extents of the larger one. Both have an integer for each dimension.
  interface varve_protect
    module procedure protect_i8, protect_i16, protect_i32, protect_i64, protect_f32, protect_f64, protect_c64, &
      protect_c128, protect_logical, protect_text
  end interface varve_protect

  ! Versions are integers of 4 or 8 bytes.
  interface varve_checkpoint
    module procedure checkpoint_int32, checkpoint_int64
  end interface varve_checkpoint
  interface varve_restart
    module procedure restart_int32, restart_int64
  end interface varve_restart
  interface varve_restart_alloc
    module procedure restart_alloc_int32, restart_alloc_int64
  end interface varve_restart_alloc
  interface varve_reject
    module procedure reject_int32, reject_int64
  end interface varve_reject

  ! Allocate an array of any rank with the shape that varve_restart_alloc has found in the store, fill and protect it.
  interface varve_take
    module procedure take_i8, take_i16, take_i32, take_i64, take_f32, &
      take_f64, take_c64, take_c128
  end interface varve_take

  interface
    ! In libvarve_fortran_mpi: a program that does not call it needs no MPI. comm is an integer, as the module mpi has
    ! it, or a type(MPI_Comm) of mpi_f08.
    module subroutine varve_open_mpi(session, comm, store, name, settings, stat, errmsg)
      type(varve_session), intent(inout) :: session
      type(*), dimension(..), intent(in) :: comm
      character(len=*), intent(in) :: store, name
      character(len=*), intent(in), optional :: settings
      integer, intent(out), optional :: stat
      character(len=*), intent(inout), optional :: errmsg
    end subroutine varve_open_mpi
  end interface

  ! struct varve_error
  type, bind(c) :: c_error
    integer(c_int) :: code = 0, rank = -1
    character(kind=c_char) :: text(492) = c_null_char
  end type c_error

  interface ! binding.h
    function c_open(store, name, settings, session, error) bind(c, name="varve_fortran_open") result(code)
      import
      character(kind=c_char), intent(in) :: store(*), name(*), settings(*)
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_open
    function c_close(session, error) bind(c, name="varve_fortran_close") result(code)
      import
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_close
    function c_protect(session, region, array, element, first, global, error) &
      bind(c, name="varve_fortran_protect") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      type(*), dimension(..), intent(in), target :: array
      integer(c_size_t), value :: element
      type(*), dimension(..), intent(in), optional :: first, global
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_protect
    function c_protect_bytes(session, region, address, bytes, error) &
      bind(c, name="varve_fortran_protect_bytes") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      type(c_ptr), value :: address
      integer(c_int64_t), value :: bytes
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_protect_bytes
    function c_alloc(session, region, bytes, address, error) bind(c, name="varve_fortran_alloc") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      integer(c_int64_t), value :: bytes
      type(c_ptr), intent(inout) :: address
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_alloc
    subroutine c_free(session, address) bind(c, name="varve_fortran_free")
      import
      type(varve_session), intent(inout) :: session
      type(c_ptr), value :: address
    end subroutine c_free
    function c_unprotect(session, region, error) bind(c, name="varve_fortran_unprotect") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_unprotect
    function c_distribute(session, region, how, error) bind(c, name="varve_fortran_distribute") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      integer(c_int), value :: how
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_distribute
    function c_attribute(session, name, value, error) bind(c, name="varve_fortran_attribute") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: name(*), value(*)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_attribute
    function c_checkpoint(session, version, error) bind(c, name="varve_fortran_checkpoint") result(code)
      import
      type(varve_session), intent(inout) :: session
      integer(c_int64_t), value :: version
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_checkpoint
    function c_wait(session, error) bind(c, name="varve_fortran_wait") result(code)
      import
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_wait
    function c_release(session, error) bind(c, name="varve_fortran_release") result(code)
      import
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_release
    function c_test(session, error) bind(c, name="varve_fortran_test") result(code)
      import
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_test
    function c_need(session, error) bind(c, name="varve_fortran_need") result(code)
      import
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_need
    function c_should_exit(session, error) bind(c, name="varve_fortran_should_exit") result(code)
      import
      type(varve_session), intent(inout) :: session
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_should_exit
    function c_time_left(session) bind(c, name="varve_fortran_time_left") result(seconds)
      import
      type(varve_session), intent(in) :: session
      real(c_double) :: seconds
    end function c_time_left
    function c_restart(session, version, version_out, error) bind(c, name="varve_fortran_restart") result(code)
      import
      type(varve_session), intent(inout) :: session
      integer(c_int64_t), value :: version
      integer(c_int64_t), intent(inout) :: version_out
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_restart
    function c_restart_alloc(session, version, version_out, error) &
      bind(c, name="varve_fortran_restart_alloc") result(code)
      import
      type(varve_session), intent(inout) :: session
      integer(c_int64_t), value :: version
      integer(c_int64_t), intent(inout) :: version_out
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_restart_alloc
    function c_reject(session, version, error) bind(c, name="varve_fortran_reject") result(code)
      import
      type(varve_session), intent(inout) :: session
      integer(c_int64_t), value :: version
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_reject
    function c_take_i8(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      integer(c_int8_t), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_i8
    function c_take_i16(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      integer(c_int16_t), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_i16
    function c_take_i32(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      integer(c_int32_t), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_i32
    function c_take_i64(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      integer(c_int64_t), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_i64
    function c_take_f32(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      real(c_float), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_f32
    function c_take_f64(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      real(c_double), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_f64
    function c_take_c64(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      complex(c_float_complex), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_c64
    function c_take_c128(session, region, array, error) bind(c, name="varve_fortran_take") result(code)
      import
      type(varve_session), intent(inout) :: session
      character(kind=c_char), intent(in) :: region(*)
      complex(c_double_complex), allocatable, intent(inout) :: array(..)
      type(c_error), intent(inout) :: error
      integer(c_int) :: code
    end function c_take_c128
  end interface

contains

  ! What allocate does with stat and errmsg, and with an error that nobody asks for.
  subroutine varve_finish(code, error, stat, errmsg)
    integer(c_int), intent(in) :: code
    type(c_error), intent(in) :: error
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    character(len=560) :: text
    text = text_of(error)
    if (present(stat)) stat = int(code)
    if (code >= 0) return
    if (present(errmsg)) errmsg = text
    if (.not. present(stat)) error stop "varve: "//trim(text)
  end subroutine varve_finish

  function text_of(error) result(text)
    type(c_error), intent(in) :: error
    character(len=560) :: text
    character(len=16) :: number
    integer :: i
    text = ""
    do i = 1, size(error%text)
      if (error%text(i) == c_null_char) exit
      text(i:i) = error%text(i)
    end do
    if (error%rank < 0) return
    write (number, "(i0)") error%rank
    text = trim(text)//" (on rank "//trim(number)//")"
  end function text_of

  ! As C has it; Fortran's blanks at the end do not count.
  pure function c_text(text) result(made)
    character(len=*), intent(in) :: text
    character(len=:, kind=c_char), allocatable :: made
    made = trim(text)//c_null_char
  end function c_text

  ! ---- open and close ----

  ! settings: "keep=3,codec=zstd", as varve(5) explains them.
  subroutine varve_open(session, store, name, settings, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: store, name
    character(len=*), intent(in), optional :: settings
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    if (present(settings)) then
      code = c_open(c_text(store), c_text(name), c_text(settings), session, error)
    else
      code = c_open(c_text(store), c_text(name), c_text(""), session, error)
    end if
    call varve_finish(code, error, stat, errmsg)
  end subroutine varve_open

  ! Collective. stat tells what became of the last checkpoint. The session is closed in any case.
  subroutine varve_close(session, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_close(session, error), error, stat, errmsg)
  end subroutine varve_close

  ! ---- what is protected ----

  ! element: the bytes of one. The descriptor of a component of derived types, or of the real parts of complex numbers,
  ! tells those of the whole.
  subroutine protect_any(session, region, array, element, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    type(*), dimension(..), intent(in), target :: array
    integer, intent(in) :: element
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_protect(session, c_text(region), array, int(element/8, c_size_t), first, global, error), error, &
                      stat, errmsg)
  end subroutine protect_any

  subroutine protect_i8(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(int8), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_i8

  subroutine protect_i16(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(int16), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_i16

  subroutine protect_i32(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(int32), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_i32

  subroutine protect_i64(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(int64), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_i64

  subroutine protect_f32(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    real(real32), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_f32

  subroutine protect_f64(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    real(real64), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_f64

  subroutine protect_c64(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    complex(real32), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_c64

  subroutine protect_c128(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    complex(real64), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_c128

  subroutine protect_logical(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    logical, pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_logical

  subroutine protect_text(session, region, array, first, global, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    character(len=*), pointer, intent(in) :: array(..)
    type(*), dimension(..), intent(in), optional :: first, global
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    call protect_any(session, region, array, storage_size(array), first, global, stat, errmsg)
  end subroutine protect_text

  ! Memory as it is, of derived types for example: call varve_protect_bytes(s, "cells", c_loc(cells), sizeof), where the
  ! type has neither allocatable components nor pointers, and sizeof is storage_size(cells)/8*size(cells, kind=int64).
  subroutine varve_protect_bytes(session, region, address, bytes, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: bytes
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_protect_bytes(session, c_text(region), address, bytes, error), error, stat, errmsg)
  end subroutine varve_protect_bytes

  ! Memory of zeros that is protected from the start, in pages of its own. It lives until varve_free or varve_close:
  !   real(real64), pointer :: t(:, :)
  !   call varve_alloc(s, "temperature", 8_int64*nx*ny, address)
  !   call c_f_pointer(address, t, [nx, ny])
  !   call varve_protect(s, "temperature", t)     ! may be left out: then it is stored as bytes
  subroutine varve_alloc(session, region, bytes, address, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(int64), intent(in) :: bytes
    type(c_ptr), intent(inout) :: address ! as it was, after an error
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_alloc(session, c_text(region), bytes, address, error), error, stat, errmsg)
  end subroutine varve_alloc

  ! Unprotects what lies there, too.
  subroutine varve_free(session, address)
    type(varve_session), intent(inout) :: session
    type(c_ptr), intent(in) :: address
    call c_free(session, address)
  end subroutine varve_free

  subroutine varve_unprotect(session, region, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_unprotect(session, c_text(region), error), error, stat, errmsg)
  end subroutine varve_unprotect

  subroutine varve_distribute(session, region, how, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer, intent(in) :: how
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_distribute(session, c_text(region), int(how, c_int), error), error, stat, errmsg)
  end subroutine varve_distribute

  ! What rank 0 says counts.
  subroutine varve_attribute(session, name, value, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: name, value
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_attribute(session, c_text(name), c_text(value), error), error, stat, errmsg)
  end subroutine varve_attribute

  ! ---- saving ----

  ! Collective. The memory may be changed again when it returns.
  subroutine checkpoint_int64(session, version, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int64), intent(in) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_checkpoint(session, version, error), error, stat, errmsg)
  end subroutine checkpoint_int64

  subroutine checkpoint_int32(session, version, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int32), intent(in) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_checkpoint(session, int(version, int64), error), error, stat, errmsg)
  end subroutine checkpoint_int32

  ! Collective. Until the last checkpoint survives the process, the machine's power and a full disk.
  subroutine varve_wait(session, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_wait(session, error), error, stat, errmsg)
  end subroutine varve_wait

  ! Until the checkpoint in flight needs the program's memory no more.
  subroutine varve_release(session, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_release(session, error), error, stat, errmsg)
  end subroutine varve_release

  ! Collective. Does the last checkpoint survive?
  subroutine varve_test(session, done, stat, errmsg)
    type(varve_session), intent(inout) :: session
    logical, intent(out) :: done
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_test(session, error)
    done = code > 0
    call varve_finish(min(code, 0_c_int), error, stat, errmsg)
  end subroutine varve_test

  ! Collective. Is a checkpoint wanted: by the interval, by somebody, or because the end of the job is near?
  subroutine varve_need(session, due, stat, errmsg)
    type(varve_session), intent(inout) :: session
    logical, intent(out) :: due
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_need(session, error)
    due = code > 0
    call varve_finish(min(code, 0_c_int), error, stat, errmsg)
  end subroutine varve_need

  ! Collective. Should the job end, and is the checkpoint that was begun for that durable? It waits for that one.
  subroutine varve_should_exit(session, leave, stat, errmsg)
    type(varve_session), intent(inout) :: session
    logical, intent(out) :: leave
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    code = c_should_exit(session, error)
    leave = code > 0
    call varve_finish(min(code, 0_c_int), error, stat, errmsg)
  end subroutine varve_should_exit

  ! Seconds until the end of the job; infinite if nobody has said when.
  function varve_time_left(session) result(seconds)
    type(varve_session), intent(in) :: session
    real(c_double) :: seconds
    seconds = c_time_left(session)
  end function varve_time_left

  ! ---- coming back ----

  ! With found, it is no error that there is no checkpoint: a first run.
  subroutine finish_restart(code, error, found, stat, errmsg)
    integer(c_int), intent(in) :: code
    type(c_error), intent(in) :: error
    logical, intent(out), optional :: found
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    integer(c_int) :: told
    told = code
    if (present(found)) then
      found = code == 0
      if (code == VARVE_NO_CHECKPOINT) told = 0
    end if
    call varve_finish(told, error, stat, errmsg)
  end subroutine finish_restart

  pure function wanted(from) result(version)
    integer(int64), intent(in), optional :: from
    integer(int64) :: version
    version = VARVE_LATEST
    if (present(from)) version = from
  end function wanted

  ! Collective. Fill all protected regions. version becomes that of the checkpoint; without one it stays as it is.
  ! from: not the newest, but this version.
  subroutine restart_int64(session, version, found, from, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int64), intent(inout) :: version
    logical, intent(out), optional :: found
    integer(int64), intent(in), optional :: from
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call finish_restart(c_restart(session, wanted(from), version, error), error, found, stat, errmsg)
  end subroutine restart_int64

  subroutine restart_int32(session, version, found, from, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int32), intent(inout) :: version
    logical, intent(out), optional :: found
    integer(int32), intent(in), optional :: from
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    integer(int64) :: restored, chosen
    restored = version
    chosen = VARVE_LATEST
    if (present(from)) chosen = from
    code = c_restart(session, chosen, restored, error)
    if (code == 0 .and. restored > huge(version)) error stop "varve: this version needs an integer(int64)"
    version = int(restored, int32)
    call finish_restart(code, error, found, stat, errmsg)
  end subroutine restart_int32

  ! Collective. The same for arrays whose shape is in the store: what is stored and not protected comes into memory of
  ! the session. varve_take then allocates an array and fills it. What is not taken stays part of later checkpoints.
  subroutine restart_alloc_int64(session, version, found, from, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int64), intent(inout) :: version
    logical, intent(out), optional :: found
    integer(int64), intent(in), optional :: from
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call finish_restart(c_restart_alloc(session, wanted(from), version, error), error, found, stat, errmsg)
  end subroutine restart_alloc_int64

  subroutine restart_alloc_int32(session, version, found, from, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int32), intent(inout) :: version
    logical, intent(out), optional :: found
    integer(int32), intent(in), optional :: from
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    integer(c_int) :: code
    integer(int64) :: restored, chosen
    restored = version
    chosen = VARVE_LATEST
    if (present(from)) chosen = from
    code = c_restart_alloc(session, chosen, restored, error)
    if (code == 0 .and. restored > huge(version)) error stop "varve: this version needs an integer(int64)"
    version = int(restored, int32)
    call finish_restart(code, error, found, stat, errmsg)
  end subroutine restart_alloc_int32

  ! Collective. This checkpoint is bad for the program: the next restart takes an older one.
  subroutine reject_int64(session, version, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int64), intent(in) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_reject(session, version, error), error, stat, errmsg)
  end subroutine reject_int64

  subroutine reject_int32(session, version, stat, errmsg)
    type(varve_session), intent(inout) :: session
    integer(int32), intent(in) :: version
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_reject(session, int(version, int64), error), error, stat, errmsg)
  end subroutine reject_int32

  subroutine take_i8(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(c_int8_t), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_i8(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_i8

  subroutine take_i16(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(c_int16_t), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_i16(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_i16

  subroutine take_i32(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(c_int32_t), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_i32(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_i32

  subroutine take_i64(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    integer(c_int64_t), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_i64(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_i64

  subroutine take_f32(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    real(c_float), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_f32(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_f32

  subroutine take_f64(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    real(c_double), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_f64(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_f64

  subroutine take_c64(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    complex(c_float_complex), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_c64(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_c64

  subroutine take_c128(session, region, array, stat, errmsg)
    type(varve_session), intent(inout) :: session
    character(len=*), intent(in) :: region
    complex(c_double_complex), allocatable, intent(inout) :: array(..)
    integer, intent(out), optional :: stat
    character(len=*), intent(inout), optional :: errmsg
    type(c_error) :: error
    call varve_finish(c_take_c128(session, c_text(region), array, error), error, stat, errmsg)
  end subroutine take_c128

end module varve
