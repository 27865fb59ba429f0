package accesslog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// maxLine is the greatest length of a line that is read, bytes.
const maxLine = 1 << 20

var errTooLong = fmt.Errorf("it is longer than %d bytes", maxLine)

// Line is a line of a log that is not empty.
type Line struct {
	Number int // from 1; empty lines count
	Entry  Entry
	Err    error // why the line was not understood; Entry is then empty
}

// Reader reads a log line by line.
type Reader struct {
	lines  *bufio.Reader
	number int
}

// NewReader makes a Reader on a log, which may be compressed by gzip: its first two bytes tell.
func NewReader(r io.Reader) (*Reader, error) {
	plain := bufio.NewReader(r)
	magic, err := plain.Peek(2)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var text io.Reader = plain
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		if text, err = gzip.NewReader(plain); err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
	}
	return &Reader{lines: bufio.NewReaderSize(text, maxLine+len("\r\n"))}, nil
}

// Next reads the next line that is not empty. Its error is io.EOF at the end of the log; a line that is not understood is
// none.
func (r *Reader) Next() (Line, error) {
	for {
		text, err := r.line()
		if err != nil && !errors.Is(err, errTooLong) {
			return Line{}, err
		}
		r.number++
		line := Line{Number: r.number}
		switch {
		case err != nil:
			line.Err = err
		case len(text) == 0:
			continue
		default:
			line.Entry, line.Err = Parse(string(text))
		}
		return line, nil
	}
}

// line reads a line, without its end; it stays valid until the next is read.
func (r *Reader) line() ([]byte, error) {
	text, err := r.lines.ReadSlice('\n')
	tooLong := false
	for errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		text, err = r.lines.ReadSlice('\n')
	}
	switch {
	case errors.Is(err, io.EOF):
		if len(text) == 0 && !tooLong {
			return nil, io.EOF
		}
	case err != nil:
		return nil, fmt.Errorf("after line %d: %w", r.number, err)
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	if tooLong || len(text) > maxLine {
		return nil, errTooLong
	}
	return text, nil
}
