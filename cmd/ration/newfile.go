package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// newFile is a file that is there whole or not at all: what is written goes to a file beside it, until commit.
type newFile struct {
	*os.File
	path string
}

// createFile begins a file, to which an older one of that path gives way at commit. Errors do not repeat the path.
func createFile(path string) (*newFile, error) {
	mode, err := modeFor(path)
	if err != nil {
		return nil, err
	}
	directory, name := filepath.Split(path)
	// Not os.CreateTemp, after which nobody else may read the file.
	beside := filepath.Join(directory, fmt.Sprintf(".%s.%s", name, rand.Text()))
	file, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return &newFile{file, path}, nil
}

// modeFor is the mode of a new file: that of the older one, if there is one, which has to be such as may be written.
func modeFor(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0o666, nil
	case err != nil:
		return 0, errors.Unwrap(err)
	case !info.Mode().IsRegular():
		return 0, errors.New("it is there and no file")
	}
	older, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return 0, errors.Unwrap(err)
	}
	return info.Mode().Perm(), older.Close()
}

// commit ends the file. Errors do not repeat the path.
func (f *newFile) commit() error {
	if err := f.Close(); err != nil {
		return errors.Unwrap(err)
	}
	return errors.Unwrap(os.Rename(f.Name(), f.path))
}

// discard leaves nothing behind of a file that was not committed.
func (f *newFile) discard() {
	_ = f.Close()
	_ = os.Remove(f.Name())
}
