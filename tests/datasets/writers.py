"""Files in the layouts that people have, for the tests of the loaders."""

import struct

import h5py
import numpy as np
import scipy.io
import scipy.sparse


def cell(*values, shape=None):
    """A MATLAB cell."""
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        out[i] = value
    return out.reshape(shape or (1, len(values)))


def mat(compress=False, version="5", **variables):
    """A writer of a MATLAB file up to version 7.2."""

    def write(folder):
        path = folder / "data.mat"
        scipy.io.savemat(path, variables, do_compression=compress, format=version)
        return path

    return write


def mat73(options=None, **variables):
    """A writer of a MATLAB file of version 7.3, with the attributes and the reversed axes of MATLAB's own."""

    def write(folder):
        path = folder / "data.mat"
        with h5py.File(path, "w", userblock_size=512) as file:
            Writer73(file, options or {}).put_all(variables)
        with open(path, "r+b") as stream:
            stream.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + struct.pack("<H", 0x0200) + b"IM")
        return path

    return write


class Writer73:
    """Python values as MATLAB keeps them in HDF5: cells and struct arrays are references."""

    def __init__(self, file, options):
        self.file, self.options = file, options
        self.count = 0

    def put_all(self, variables):
        for name, value in variables.items():
            self.put(self.file, name, value)

    def put(self, group, name, value):
        if isinstance(value, str):
            out = group.create_dataset(name, data=np.array([[ord(c)] for c in value], dtype=np.uint16))
            kind = "char"
        elif isinstance(value, dict):
            out, kind = group.create_group(name), "struct"
            for field, part in value.items():
                self.put(out, field, part)
        elif isinstance(value, list):  # a struct array
            out, kind = group.create_group(name), "struct"
            for field in value[0]:
                refs = out.create_dataset(field, (len(value), 1), dtype=h5py.ref_dtype)
                refs[:, 0] = [self.reference(record[field]) for record in value]
        elif scipy.sparse.issparse(value):
            columns = scipy.sparse.csc_array(value)
            out, kind = group.create_group(name), "double"
            out.attrs["MATLAB_sparse"] = np.uint64(columns.shape[0])
            out["data"], out["ir"], out["jc"] = columns.data, columns.indices, columns.indptr
        elif value.dtype == object:
            refs = [self.reference(part) for part in value.ravel(order="F")]
            out = group.create_dataset(name, value.T.shape, dtype=h5py.ref_dtype)
            out[...] = np.array(refs, dtype=h5py.ref_dtype).reshape(value.T.shape)
            kind = "cell"
        else:
            value = np.atleast_2d(value)
            out = group.create_dataset(name, data=value.T, **(self.options if value.size > 1 else {}))
            kind = {"float64": "double", "float32": "single"}.get(value.dtype.name, value.dtype.name)
        out.attrs["MATLAB_class"] = np.bytes_(kind)
        return out

    def reference(self, value):
        self.count += 1
        return self.put(self.file.require_group("#refs#"), f"r{self.count}", value).ref


def npz(**arrays):
    def write(folder):
        np.savez(folder / "data.npz", **arrays)
        return folder / "data.npz"

    return write


def folder_of(**texts):
    """A writer of a folder of text files; two underscores in a name stand for the dot."""

    def write(folder):
        (folder / "views").mkdir()
        for name, text in texts.items():
            (folder / "views" / name.replace("__", ".")).write_text(text)
        return folder / "views"

    return write
