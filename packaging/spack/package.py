# Copyright (c) The Varve authors
#
# SPDX-License-Identifier: BSD-3-Clause

from spack.package import *


class Varve(CMakePackage):
    """Varve saves the memory of long-running programs and MPI jobs, and
    restarts them after a crash. Each checkpoint stores only what no earlier
    checkpoint and no other process of the job has stored."""

    homepage = "https://varve.example.org"
    git = "https://varve.example.org/varve.git"

    license("BSD-3-Clause")

    version("main", branch="main")
    version("0.2.0", tag="v0.2.0")

    variant(
        "mpi", default=True, description="Build libvarve_mpi, and veloc.h for programs of VELOC"
    )
    variant("env", default=True, description="Build libvarve_env, for jobs without MPI")
    variant("s3", default=False, description="Build libvarve_s3, for stores in buckets")
    variant("cipher", default=True, description="Build libvarve_cipher, for encrypted stores")
    variant("hdf5", default=True, description="Look into HDF5 files, and export to them")
    variant(
        "opencl", default=False, description="Build libvarve_cl, for buffers of OpenCL devices"
    )
    variant("python", default=True, description="Install the Python package")
    variant(
        "fortran", default=True, description="Build libvarve_fortran, with gfortran 12 or later"
    )
    variant("fpzip", default=False, description="Use fpzip")
    variant("zfp", default=False, description="Use zfp")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.20:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("scdoc", type="build")
    depends_on("xxhash")
    depends_on("lz4")
    depends_on("zstd@1.5:")
    depends_on("zlib-api")
    depends_on("mpi", when="+mpi")
    depends_on("openssl", when="+env")
    depends_on("openssl", when="+s3")
    depends_on("openssl", when="+cipher")
    depends_on("curl", when="+s3")
    depends_on("hdf5@1.10:+hl", when="+hdf5")
    depends_on("opencl", when="+opencl")
    depends_on("fpzip", when="+fpzip")
    depends_on("zfp", when="+zfp")
    depends_on("python@3.9:", type=("build", "run"), when="+python")
    depends_on("py-numpy", type=("build", "run"), when="+python")

    extends("python", when="+python")

    generator("ninja")

    conflicts("platform=darwin", msg="Varve needs Linux")
    conflicts("platform=windows", msg="Varve needs Linux")

    def cmake_args(self):
        args = [
            self.define("VARVE_FAULTS", False),
            self.define("VARVE_BENCH", False),
            self.define("BUILD_TESTING", False),
            self.define("VARVE_RADOS", False),
            self.define("VARVE_ZLIB", True),
            self.define(
                "VARVE_FLOAT_CODECS", self.spec.satisfies("+fpzip") or self.spec.satisfies("+zfp")
            ),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_fpzip", self.spec.satisfies("~fpzip")),
            self.define("CMAKE_DISABLE_FIND_PACKAGE_zfp", self.spec.satisfies("~zfp")),
            self.define_from_variant("VARVE_MPI", "mpi"),
            self.define_from_variant("VARVE_ENV", "env"),
            self.define_from_variant("VARVE_S3", "s3"),
            self.define_from_variant("VARVE_CIPHER", "cipher"),
            self.define_from_variant("VARVE_HDF5", "hdf5"),
            self.define_from_variant("VARVE_OPENCL", "opencl"),
            self.define_from_variant("VARVE_PYTHON", "python"),
            self.define_from_variant("VARVE_FORTRAN", "fortran"),
        ]
        if self.spec.satisfies("+mpi"):
            args.append(self.define("MPI_C_COMPILER", self.spec["mpi"].mpicc))
        if self.spec.satisfies("+python"):
            args.append(
                self.define("VARVE_PYTHON_FOLDER", python_platlib.replace(f"{self.prefix}/", ""))
            )
        return args

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.set("LIBVARVE", self.prefix.lib)

    def test_version(self):
        """the tool tells its version"""
        varve = which(self.prefix.bin.varve)
        out = varve("--version", "--build", output=str.split, error=str.split)
        check_outputs([rf"varve {self.spec.version}", r"codecs lz4 zstd"], out)

    def test_restart(self):
        """an example saves and comes back"""
        source = join_path(self.prefix.share, "doc", "varve", "examples", "counter.c")
        cc = which(self.compiler.cc)
        with working_dir(self.test_suite.stage):
            cc(
                "-o",
                "counter",
                source,
                f"-I{self.prefix.include}",
                f"-L{self.prefix.lib}",
                f"-Wl,-rpath,{self.prefix.lib}",
                "-lvarve",
            )
            which("./counter")("ck")
            which(self.prefix.bin.varve)("verify", "ck")
