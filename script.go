package ration

import "fmt"

//go:generate go run ./internal/assemble

// script is a Lua script as Redis knows it. Its digest is pinned when it is generated.
type script struct {
	name   string
	source *string
	digest any // its SHA-1 in hex, a string boxed once
	fields int // integers in its reply; 0: it depends on the call
}

// checkFields says what is wrong with the number of integers in an answer.
func (s *script) checkFields(answer []int64) error {
	if s.fields == 0 {
		return nil
	}
	return s.checkLength(answer, s.fields)
}

func (s *script) checkLength(answer []int64, want int) error {
	if len(answer) != want {
		return unavailable(fmt.Errorf("%s: %d integers in the reply, not %d", s.name, len(answer), want))
	}
	return nil
}
