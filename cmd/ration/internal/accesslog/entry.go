// Package accesslog reads web access logs in the common and the combined format, as Apache and nginx write them.
package accesslog

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Entry is one line of a log. Its texts are as they stand there, escapes included, so that they can be searched for.
type Entry struct {
	Host    string // of the client: an address or a name
	Ident   string
	User    string
	Time    time.Time // in the zone of the log, whole seconds
	Request string    // the first line of the request, or whatever the client sent in its place
	Status  string    // three digits or -
	Bytes   string    // digits or -

	Combined  bool // the line has a referer and a user agent
	Referer   string
	UserAgent string
}

// timeLayout is Apache's %t, without its brackets.
const timeLayout = "02/Jan/2006:15:04:05 -0700"

// Parse reads a line, without its line end:
//
//	host ident user [time] "request" status bytes
//	host ident user [time] "request" status bytes "referer" "user agent"
//
// In a quoted text a backslash keeps the byte behind it from ending the text. A line is understood as a whole or not at
// all; the error says up to where it was.
func Parse(line string) (Entry, error) {
	p := parser{rest: line}
	var e Entry
	e.Host = p.word("host")
	e.Ident = p.word("ident")
	e.User = p.word("user")
	e.Time = p.time()
	e.Request = p.quoted("request")
	e.Status = p.word("status")
	p.check(isStatus(e.Status), "status", e.Status, "three digits or -")
	if e.Combined = strings.Contains(p.rest, " "); e.Combined {
		e.Bytes = p.word("bytes")
		e.Referer = p.quoted("referer")
		e.UserAgent = p.lastQuoted("user agent")
	} else {
		e.Bytes = p.rest
	}
	p.check(e.Bytes == "-" || isDigits(e.Bytes), "bytes", e.Bytes, "a number or -")
	if p.err != nil {
		return Entry{}, p.err
	}
	return e, nil
}

// Method is the method of the request; a dash if the client sent no request line.
func (e Entry) Method() string {
	method, _, ok := e.requestLine()
	if !ok {
		return "-"
	}
	return method
}

// Path is the target of the request without its query; the whole of what the client sent if that is no request line.
func (e Entry) Path() string {
	_, target, ok := e.requestLine()
	if !ok {
		return e.Request
	}
	path, _, _ := strings.Cut(target, "?")
	return path
}

// requestLine takes a request apart: a method and a target, and the version of HTTP unless it is 0.9 (RFC 9112, sections
// 3 and 1.2). A target with spaces in it is none, but clients do send it.
func (e Entry) requestLine() (method, target string, ok bool) {
	method, target, ok = strings.Cut(e.Request, " ")
	if !ok || !isToken(method) {
		return "", "", false
	}
	if end := strings.LastIndex(target, " HTTP/"); end > 0 {
		return method, target[:end], true
	}
	return method, target, strings.HasPrefix(target, "/")
}

// parser takes a line apart from left to right. After an error it stands still.
type parser struct {
	rest string
	err  error
}

// word takes off what stands before the next space.
func (p *parser) word(field string) string {
	word, rest, found := strings.Cut(p.rest, " ")
	if !found || word == "" {
		p.fail(field, "is missing")
		return ""
	}
	p.rest = rest
	return word
}

func (p *parser) time() time.Time {
	const field = "time"
	rest, found := strings.CutPrefix(p.rest, "[")
	if !found {
		p.fail(field, "has no opening bracket")
		return time.Time{}
	}
	text, rest, found := strings.Cut(rest, "] ")
	if !found {
		p.fail(field, "has no closing bracket")
		return time.Time{}
	}
	p.rest = rest
	t, err := time.ParseInLocation(timeLayout, text, time.UTC)
	// Parse is more lenient than any server writes. Nor does a server run before 1970.
	p.check(err == nil && t.Format(timeLayout) == text && t.Unix() >= 0, field, text, "one such as 17/May/2015:10:05:03 +0000")
	return t
}

// quoted takes off a quoted text and the space behind it.
func (p *parser) quoted(field string) string {
	text := p.quotedText(field)
	rest, found := strings.CutPrefix(p.rest, " ")
	if !found {
		p.fail(field, "is not followed by a space")
	}
	p.rest = rest
	return text
}

// lastQuoted takes off a quoted text that ends the line.
func (p *parser) lastQuoted(field string) string {
	text := p.quotedText(field)
	if p.rest != "" {
		p.fail(field, "is not the end of the line")
	}
	return text
}

func (p *parser) quotedText(field string) string {
	text, found := strings.CutPrefix(p.rest, `"`)
	if !found {
		p.fail(field, "has no opening quote")
		return ""
	}
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			p.rest = text[i+1:]
			return text[:i]
		}
	}
	p.fail(field, "has no closing quote")
	return ""
}

// check fails unless a field is as it should be.
func (p *parser) check(ok bool, field, text, wanted string) {
	if !ok {
		p.fail(field, fmt.Sprintf("is %s: want %s", quote(text), wanted))
	}
}

func (p *parser) fail(field, reason string) {
	if p.err == nil {
		p.err = errors.New(field + " " + reason)
	}
	p.rest = ""
}

// quote shows the beginning of a text that may be long and hold anything.
func quote(text string) string {
	const most = 40
	if len(text) > most {
		return fmt.Sprintf("%q…", text[:most])
	}
	return fmt.Sprintf("%q", text)
}

func isStatus(s string) bool { return s == "-" || len(s) == 3 && isDigits(s) }

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// isToken says whether s may be a method (RFC 9110, section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		isLetter := 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
		if !isLetter && (c < '0' || c > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(c)) {
			return false
		}
	}
	return s != ""
}
