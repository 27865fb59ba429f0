package main

import (
	"context"
	"errors"
	"io"
	"os"
)

// standardInput is the path that stands for the standard input.
const standardInput = "-"

// inputName is what the file of a path is called in what is printed.
func inputName(path string) string {
	if path == standardInput {
		return "standard input"
	}
	return path
}

// openInput opens the file of a path. Reading it ends with ctx. Errors do not repeat the path.
func openInput(ctx context.Context, stdin io.Reader, path string) (io.ReadCloser, error) {
	if path == standardInput {
		return io.NopCloser(interruptible{ctx, stdin}), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	return struct {
		io.Reader
		io.Closer
	}{interruptible{ctx, file}, file}, nil
}

// interruptible reads until a context ends.
type interruptible struct {
	ctx context.Context
	io.Reader
}

func (r interruptible) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
