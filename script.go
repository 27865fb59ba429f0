package ration

//go:generate go run ./internal/assemble

// script is a Lua script as Redis knows it. Its digest is pinned when it is generated.
type script struct {
	name   string
	source *string
	digest any // its SHA-1 in hex, a string boxed once
	fields int // integers in its reply
}
