! Every call of the module varve, in one process: calls FOLDER
module checks
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  implicit none
  integer :: failed = 0

contains

  subroutine expect(is_true, what)
    logical, intent(in) :: is_true
    character(len=*), intent(in) :: what
    if (is_true) return
    failed = failed + 1
    print "(2a)", "FAILED: ", what
  end subroutine expect

  ! A refusal has its code, and its text names the region.
  subroutine expect_refused(stat, errmsg, word, what)
    integer, intent(in) :: stat
    character(len=*), intent(in) :: errmsg, word, what
    call expect(stat < 0, what//" was not refused")
    call expect(index(errmsg, word) > 0 .and. index(errmsg, "region bad") > 0, what//": "//trim(errmsg))
  end subroutine expect_refused
end module checks

program calls
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_loc, c_null_ptr, c_ptr
  use checks
  use varve
  implicit none
  type :: flat_type
    real(real32) :: a
    integer(int16) :: b(3)
  end type flat_type
  character(len=4096) :: folder

  call get_command_argument(1, folder)
  call every_kind()
  call refusals()
  call allocated_by_restart()
  call allocated_by_name()
  call damaged()
  call nothing_at_all()
  call errors()
  call versions()
  if (failed > 0) error stop "checks failed"
  print "(a)", "all checks passed"

contains

  ! What is stored comes back, of every kind, rank 0 to 15, and sections that are contiguous.
  subroutine every_kind()
    type(varve_session) :: s
    integer(int8), target :: i1(5)
    integer(int16), target :: i2(2, 2)
    integer(int32), target :: i4
    integer(int64), target :: i8(3, 1, 2)
    real(real32), target :: r4(4)
    real(real64), allocatable, target :: r8(:, :)
    complex(real32), target :: c4(2)
    complex(real64), target :: c8(2, 2)
    logical, target :: l(3)
    character(len=7), target :: text(2)
    real(real64), target :: deep(1, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2)
    type(flat_type), target :: flat(2)
    integer :: round, step
    logical :: found

    allocate (r8(6, 4))
    do round = 1, 2
      i1 = 0_int8; i2 = 0_int16; i4 = 0; i8 = 0_int64; r4 = 0; r8 = 0; c4 = 0; c8 = 0; l = .false.; text = ""; deep = 0
      flat = flat_type(0, 0_int16)
      if (round == 1) then
        i1 = [1_int8, -2_int8, 3_int8, 4_int8, 127_int8]
        i2 = reshape([1_int16, 2_int16, 3_int16, -4_int16], [2, 2])
        i4 = -77
        i8 = reshape([1_int64, 2_int64, 3_int64, 4_int64, 5_int64, -huge(0_int64)], [3, 1, 2])
        r4 = [1.5, -2.5, 3.25, 1e30]
        r8 = reshape([(real(step, real64)/3, step=1, 24)], [6, 4])
        c4 = [(1.0, -2.0), (3.0, 4.0)]
        c8 = (0.1d0, 1d-300)
        l = [.true., .false., .true.]
        text = ["Fortran", "varves "]
        deep = reshape([1d0, 2d0, 3d0, 4d0], shape(deep))
        flat(2) = flat_type(2.5, [7_int16, 8_int16, 9_int16])
      end if
      call varve_open(s, trim(folder)//"/kinds", "kinds", "keep=2")
      call varve_protect(s, "i1", i1)
      call varve_protect(s, "i2", i2)
      call varve_protect(s, "i4", i4)
      call varve_protect(s, "i8", i8)
      call varve_protect(s, "r4", r4)
      call varve_protect(s, "r8", r8(:, 2:3))
      call varve_protect(s, "c4", c4)
      call varve_protect(s, "c8", c8)
      call varve_protect(s, "l", l)
      call varve_protect(s, "text", text)
      call varve_protect(s, "deep", deep)
      call varve_protect_bytes(s, "flat", c_loc(flat), storage_size(flat)/8*size(flat, kind=int64))
      call varve_attribute(s, "language", "Fortran")
      step = 41
      call varve_restart(s, step, found)
      call expect(found .eqv. (round == 2), "found tells whether there is a checkpoint")
      call expect(step == merge(7, 41, round == 2), "the version comes back, or is left alone")
      if (round == 1) call varve_checkpoint(s, 7)
      call varve_close(s)
    end do
    call expect(all(i1 == [1_int8, -2_int8, 3_int8, 4_int8, 127_int8]), "integer(int8)")
    call expect(i2(2, 2) == -4_int16 .and. i2(2, 1) == 2_int16, "integer(int16)")
    call expect(i4 == -77, "a scalar")
    call expect(i8(3, 1, 2) == -huge(0_int64) .and. i8(1, 1, 2) == 4, "integer(int64)")
    call expect(r4(4) == 1e30 .and. r4(1) == 1.5, "real(real32)")
    call expect(all(r8(:, 2:3) == reshape([(real(step, real64)/3, step=7, 18)], [6, 2])), "real(real64), a section")
    call expect(all(r8(:, 1) == 0) .and. all(r8(:, 4) == 0), "what is beside the section stays")
    call expect(c4(1) == (1.0, -2.0) .and. c8(2, 2) == (0.1d0, 1d-300), "complex")
    call expect(all(l .eqv. [.true., .false., .true.]), "logical")
    call expect(text(1) == "Fortran" .and. text(2) == "varves", "characters")
    call expect(all(reshape(deep, [4]) == [1d0, 2d0, 3d0, 4d0]), "rank 15")
    call expect(flat(2)%a == 2.5 .and. flat(2)%b(3) == 9, "a flat derived type")
  end subroutine every_kind

  subroutine refusals()
    type(varve_session) :: s
    real(real64), target :: x(6, 4)
    real(real64), allocatable, target :: nothing(:)
    complex(real64), target :: z(3)
    type(flat_type), target :: flat(4)
    integer :: stat
    character(len=300) :: why

    x = 1
    z = 1
    flat = flat_type(0, 0_int16)
    call varve_open(s, trim(folder)//"/refusals", "refusals")
    call varve_protect(s, "bad", x(1:6:2, :), stat=stat, errmsg=why)
    call expect_refused(stat, why, "not contiguous", "a section with a stride")
    call varve_protect(s, "bad", x(2:3, :), stat=stat, errmsg=why)
    call expect_refused(stat, why, "not contiguous", "rows")
    call varve_protect(s, "bad", flat%a, stat=stat, errmsg=why)
    call expect_refused(stat, why, "not contiguous", "a component")
    call varve_protect(s, "bad", z%im, stat=stat, errmsg=why)
    call expect_refused(stat, why, "not contiguous", "imaginary parts")
    call varve_protect(s, "bad", nothing, stat=stat, errmsg=why)
    call expect_refused(stat, why, "not allocated", "an array without memory")
    call varve_protect(s, "bad", x, first=[1, 1], stat=stat, errmsg=why)
    call expect_refused(stat, why, "an integer for each", "first without global")
    call varve_protect(s, "bad", x, first=[1], global=[6], stat=stat, errmsg=why)
    call expect_refused(stat, why, "an integer for each", "too few dimensions")
    call varve_protect(s, "bad", x, first=[0, 1], global=[6, 4], stat=stat, errmsg=why)
    call expect_refused(stat, why, "dimension 1: 6 elements from 0 on", "an index below 1")
    call varve_protect(s, "bad", x, first=[1_int64, 2_int64], global=[6_int64, 4_int64], stat=stat, errmsg=why)
    call expect_refused(stat, why, "dimension 2: 4 elements from 2 on", "beyond the end")
    call varve_protect(s, "bad", x, first=[1.0, 1.0], global=[6.0, 4.0], stat=stat, errmsg=why)
    call expect_refused(stat, why, "integers of 4 or 8 bytes", "an index that is real")
    call varve_protect(s, "good", x, first=[1, 1], global=[6, 4])
    call varve_checkpoint(s, 1)
    call varve_close(s)
  end subroutine refusals

  ! A rank may have nothing of an array; and what is empty comes back empty.
  subroutine nothing_at_all()
    type(varve_session) :: s
    real(real64), allocatable, target :: x(:), y(:, :)
    real(real64), allocatable, target :: z(:)
    integer :: step
    allocate (x(0), y(3, 4))
    y = 1
    call varve_open(s, trim(folder)//"/nothing", "nothing")
    call varve_protect(s, "x", x)
    call varve_protect(s, "y", y(:, 3:2))
    call varve_checkpoint(s, 1)
    call varve_close(s)
    call varve_open(s, trim(folder)//"/nothing", "nothing")
    call varve_protect(s, "y", y(:, 3:2))
    call varve_restart_alloc(s, step)
    call varve_take(s, "x", z)
    call expect(step == 1 .and. size(z) == 0, "an array without elements")
    call varve_close(s)
  end subroutine nothing_at_all

  subroutine save_shapes(place, settings)
    character(len=*), intent(in) :: place, settings
    type(varve_session) :: s
    real(real64), allocatable, target :: x(:, :)
    integer(int32), target :: n(3)
    complex(real64), target :: z(2, 3, 4)
    integer :: i
    z = (1d0, 2d0)
    z(2, 1, 4) = (3d0, 4d0)
    call varve_open(s, trim(folder)//place, "shapes", settings)
    do i = 1, 3 ! it grows
      if (allocated(x)) deallocate (x)
      allocate (x(5, i))
      x = i
      x(2, i) = 100 + i
      n = i
      call varve_protect(s, "x", x, first=[1, 1], global=[5, i])
      call varve_protect(s, "n", n)
      call varve_protect(s, "z", z)
      call varve_checkpoint(s, i)
      call varve_wait(s)
      call varve_unprotect(s, "x")
    end do
    call varve_close(s)
  end subroutine save_shapes

  subroutine allocated_by_restart()
    type(varve_session) :: s
    real(real64), allocatable, target :: x(:, :), y(:)
    integer(int32), target :: n(3)
    complex(real64), allocatable, target :: z(:, :, :)
    integer(int64) :: version
    integer :: stat
    logical :: found
    character(len=300) :: why
    call save_shapes("/shapes", "keep=all")
    call varve_open(s, trim(folder)//"/shapes", "shapes")
    n = 0
    call varve_protect(s, "n", n)
    call varve_restart_alloc(s, version, found)
    call expect(found .and. version == 3, "the newest is found")
    call expect(all(n == 3), "what is protected is filled where it is")
    call varve_take(s, "x", y, stat, why)
    call expect(stat == VARVE_MISMATCH .and. .not. allocated(y), "an array of another rank is refused: "//trim(why))
    call varve_take(s, "none", y, stat, why)
    call expect(stat < 0 .and. index(why, "region none") > 0, "what has not come is refused")
    call varve_take(s, "x", x)
    call expect(allocated(x), "an allocatable array is allocated")
    call expect(all(shape(x) == [5, 3]) .and. lbound(x, 1) == 1, "with the shape that is stored")
    call expect(x(2, 3) == 103 .and. x(1, 1) == 3, "and filled")
    call varve_take(s, "x", x, stat, why)
    call expect(stat < 0, "nothing is taken twice")
    x(5, 3) = -1
    call varve_checkpoint(s, 4) ! z is not taken yet, and still part of it
    call varve_take(s, "z", z)
    call expect(all(shape(z) == [2, 3, 4]) .and. z(2, 1, 4) == (3d0, 4d0), "an array of three dimensions")
    call varve_checkpoint(s, 5)
    call varve_close(s)
    deallocate (x, z)
    n = 0
    call varve_open(s, trim(folder)//"/shapes", "shapes")
    call varve_restart_alloc(s, version, from=4_int64)
    call varve_take(s, "z", z)
    call expect(z(2, 1, 4) == (3d0, 4d0), "what was not taken was saved")
    call varve_take(s, "x", x)
    call expect(x(5, 3) == -1, "what was taken is protected where it lies now")
    call varve_unprotect(s, "n")
    call varve_close(s)
  end subroutine allocated_by_restart

  ! Memory of Varve behind pointers: found and restored by its name, with and without a type.
  subroutine allocated_by_name()
    type(varve_session) :: s
    type(c_ptr) :: address, bytes
    real(real64), pointer :: x(:, :)
    integer(int32), pointer :: n(:)
    integer :: round, step, stat
    logical :: found
    character(len=300) :: why
    do round = 1, 2
      call varve_open(s, trim(folder)//"/named", "named")
      call varve_alloc(s, "x", 8_int64*6*5, address)
      call c_f_pointer(address, x, [6, 5])
      call varve_protect(s, "x", x)
      call varve_alloc(s, "n", 4_int64*100, bytes)
      call c_f_pointer(bytes, n, [100])
      call expect(all(x == 0) .and. all(n == 0), "it holds zeros")
      call varve_restart(s, step, found)
      call expect(found .eqv. (round == 2), "there is a checkpoint from the second run on")
      if (round == 2) exit
      x = 1.5
      x(6, 5) = 2.5
      n = -3
      call varve_checkpoint(s, 1)
      call varve_close(s)
    end do
    call expect(x(6, 5) == 2.5 .and. x(1, 1) == 1.5 .and. all(n == -3), "both come back")
    call varve_free(s, bytes)
    call varve_unprotect(s, "n", stat, why)
    call expect(stat < 0, "what is freed is not protected")
    bytes = c_null_ptr
    call varve_alloc(s, "bad", -1_int64, bytes, stat, why)
    call expect_refused(stat, why, "cannot have -1 bytes", "a size below 1")
    call varve_alloc(s, "bad", huge(0_int64), bytes, stat, why)
    call expect_refused(stat, why, "no memory", "more than there is")
    call expect(.not. c_associated(bytes), "and there is no address")
    call varve_close(s)
    call varve_alloc(s, "bad", 8_int64, bytes, stat, why)
    call expect(stat < 0, "not without a session")
  end subroutine allocated_by_name

  ! The newest is damaged: the one before comes, with its own shape.
  subroutine damaged()
    type(varve_session) :: s
    real(real64), allocatable, target :: x(:, :)
    integer(int64) :: version
    integer :: code
    call save_shapes("/damaged", "keep=all,codec=none")
    call execute_command_line("f=$(find '"//trim(folder)//"/damaged/n/shapes/data' -type f | sort | tail -n 1) && "// &
                              "truncate -s -9 ""$f""", exitstat=code)
    call expect(code == 0, "a file was damaged")
    call varve_open(s, trim(folder)//"/damaged", "shapes", "log=error")
    call varve_restart_alloc(s, version)
    call expect(version == 2, "the one before is restored")
    call varve_take(s, "x", x)
    call expect(all(shape(x) == [5, 2]) .and. x(2, 2) == 102, "with its own shape")
    call varve_close(s)
  end subroutine damaged

  subroutine errors()
    type(varve_session) :: s, t
    integer :: stat, step
    real(real64), target :: x(3)
    logical :: found, done, due
    character(len=300) :: why
    character(len=8) :: short
    call varve_wait(s, stat, why)
    call expect(stat < 0 .and. why /= "", "a session that is not open")
    call varve_open(s, "/dev/null/x", "errors", stat=stat, errmsg=why)
    call expect(stat < 0 .and. index(why, "/dev/null") > 0, "a store that cannot be: "//trim(why))
    call varve_open(s, trim(folder)//"/errors", "errors", "keep=many", stat, why)
    call expect(stat == VARVE_SETTING .and. index(why, "keep") > 0, "a setting that cannot be: "//trim(why))
    call varve_open(s, trim(folder)//"/errors", "errors")
    call varve_open(s, trim(folder)//"/errors", "errors", stat=stat, errmsg=short)
    call expect(stat < 0 .and. short == "this ses", "an open session, and a short text")
    call varve_open(t, trim(folder)//"/errors", "errors", "takeover_seconds=0", stat, why)
    call expect(stat == VARVE_BUSY, "a name in use: "//trim(why))
    call varve_restart(s, step, stat=stat)
    call expect(stat == VARVE_NO_CHECKPOINT, "without found, no checkpoint is an error")
    call varve_distribute(s, "x", VARVE_REPLICATED, stat, why)
    call expect(stat < 0, "a region that is not there")
    x = 3
    call varve_protect(s, "x", x)
    call varve_distribute(s, "x", VARVE_REPLICATED)
    why = "as it was"
    call varve_checkpoint(s, 1, stat, why)
    call expect(stat == 0 .and. why == "as it was", "success leaves errmsg alone")
    call varve_release(s)
    call varve_wait(s)
    call varve_test(s, done)
    call varve_need(s, due)
    call expect(done .and. due, "it survives, and the next is due")
    call varve_should_exit(s, done)
    call expect(.not. done, "nobody wants the job to end")
    call expect(varve_time_left(s) > 0, "and nobody has said when it ends")
    call varve_checkpoint(s, 1, stat, why)
    call expect(stat < 0, "a version that is not above the last")
    call varve_checkpoint(s, 2)
    call varve_reject(s, 2)
    call varve_restart(s, step, found, stat=stat)
    call expect(found .and. step == 1, "a rejected checkpoint is not offered again")
    call varve_close(s)
    call varve_close(s)
  end subroutine errors

  subroutine versions()
    type(varve_session) :: s
    integer(int64) :: version
    integer(int32), target :: x
    call varve_open(s, trim(folder)//"/versions", "versions")
    x = 5
    call varve_protect(s, "x", x)
    call varve_checkpoint(s, 3000000000_int64)
    call varve_restart(s, version)
    call expect(version == 3000000000_int64, "versions beyond 32 bits")
    call varve_close(s)
  end subroutine versions
end program calls
