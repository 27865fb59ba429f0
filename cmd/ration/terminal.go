package main

import (
	"io"
	"os"

	"golang.org/x/term"
)

// isTerminal says whether a stream is a terminal that can move its cursor.
func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd())) && os.Getenv("TERM") != "dumb"
}

// widthOf is how many columns a stream has; 0 if it is no terminal and lines may be of any length.
func widthOf(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}
