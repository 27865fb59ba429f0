package accesslog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/go-ration/ration/cmd/ration/internal/accesslog"
)

var (
	utc   = time.Date(2026, time.March, 14, 9, 26, 53, 0, time.UTC)
	plus2 = time.Date(2026, time.March, 14, 9, 26, 53, 0, time.FixedZone("", 2*60*60))
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, line string
		want       accesslog.Entry
	}{
		{
			"common",
			`192.0.2.1 - frank [14/Mar/2026:09:26:53 +0000] "GET /a?b=c HTTP/1.1" 200 2326`,
			accesslog.Entry{
				Host: "192.0.2.1", Ident: "-", User: "frank", Time: utc,
				Request: "GET /a?b=c HTTP/1.1", Status: "200", Bytes: "2326",
			},
		},
		{
			"combined, in another zone",
			`2001:db8::1 - - [14/Mar/2026:09:26:53 +0200] "GET / HTTP/2.0" 304 0 "https://example.com/" "curl/8.5.0"`,
			accesslog.Entry{
				Host: "2001:db8::1", Ident: "-", User: "-", Time: plus2,
				Request: "GET / HTTP/2.0", Status: "304", Bytes: "0",
				Combined: true, Referer: "https://example.com/", UserAgent: "curl/8.5.0",
			},
		},
		{
			"a host name, no bytes, escaped quotes and backslashes",
			`client.example.com - "" [14/Mar/2026:09:26:53 +0000] "GET /\"x\" HTTP/1.1" 204 - "\\" "a \"b\" \\\" c"`,
			accesslog.Entry{
				Host: "client.example.com", Ident: "-", User: `""`, Time: utc,
				Request: `GET /\"x\" HTTP/1.1`, Status: "204", Bytes: "-",
				Combined: true, Referer: `\\`, UserAgent: `a \"b\" \\\" c`,
			},
		},
		{
			"no request, nothing sent",
			`192.0.2.1 - - [14/Mar/2026:09:26:53 +0000] "-" 408 - "-" "-"`,
			accesslog.Entry{
				Host: "192.0.2.1", Ident: "-", User: "-", Time: utc,
				Request: "-", Status: "408", Bytes: "-", Combined: true, Referer: "-", UserAgent: "-",
			},
		},
		{
			"empty texts",
			`192.0.2.1 - - [14/Mar/2026:09:26:53 +0000] "" - - "" ""`,
			accesslog.Entry{Host: "192.0.2.1", Ident: "-", User: "-", Time: utc, Status: "-", Bytes: "-", Combined: true},
		},
		{
			"not text",
			"192.0.2.1 - - [14/Mar/2026:09:26:53 +0000] \"\xff\x00\" 400 1",
			accesslog.Entry{
				Host: "192.0.2.1", Ident: "-", User: "-", Time: utc, Request: "\xff\x00", Status: "400", Bytes: "1",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := accesslog.Parse(c.line)
			require.NoError(t, err)
			require.True(t, got.Time.Equal(c.want.Time), "%v", got.Time)
			got.Time, c.want.Time = time.Time{}, time.Time{}
			require.Equal(t, c.want, got)
		})
	}
}

func TestParseMalformed(t *testing.T) {
	t.Parallel()
	const time = "[14/Mar/2026:09:26:53 +0000]"
	for _, c := range []struct{ line, want string }{
		{``, `host is missing`},
		{`192.0.2.1`, `host is missing`},
		{` - - - ` + time + ` "GET / HTTP/1.1" 200 1`, `host is missing`},
		{`192.0.2.1 -  - ` + time + ` "GET / HTTP/1.1" 200 1`, `user is missing`},
		{`192.0.2.1 - - "GET / HTTP/1.1" 200 1`, `time has no opening bracket`},
		{`example.com:80 192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 1 "-" "-"`, `time has no opening bracket`},
		{`192.0.2.1 - - [14/Mar/2026:09:26:53 +0000 "GET / HTTP/1.1" 200 1`, `time has no closing bracket`},
		{`192.0.2.1 - - [31/Feb/2026:09:26:53 +0000] "GET / HTTP/1.1" 200 1`, `time is "31/Feb/2026:09:26:53 +0000": want one such as`},
		{`192.0.2.1 - - [14/Mar/2026:9:26:53 +0000] "GET / HTTP/1.1" 200 1`, `time is "14/Mar/2026:9:26:53 +0000": want one such as`},
		{`192.0.2.1 - - [14/mar/2026:09:26:53 +0000] "GET / HTTP/1.1" 200 1`, `time is`},
		{`192.0.2.1 - - [14/Mar/2026:09:26:53.5 +0000] "GET / HTTP/1.1" 200 1`, `time is`},
		{`192.0.2.1 - - [14/Mar/2026:24:26:53 +0000] "GET / HTTP/1.1" 200 1`, `time is`},
		{`192.0.2.1 - - [14/Mar/1969:09:26:53 +0000] "GET / HTTP/1.1" 200 1`, `time is`},
		{`192.0.2.1 - - [] "GET / HTTP/1.1" 200 1`, `time is ""`},
		{`192.0.2.1 - - ` + time + ` GET / HTTP/1.1 200 1`, `request has no opening quote`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1 200 1`, `request has no closing quote`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1\" 200 1`, `request has no closing quote`},
		{`192.0.2.1 - - ` + time + ` "GET /"200 1`, `request is not followed by a space`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1"`, `request is not followed by a space`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200`, `status is missing`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 20 1`, `status is "20": want three digits or -`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 `, `bytes is "": want a number or -`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 1k`, `bytes is "1k": want a number or -`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 -1`, `bytes is "-1": want a number or -`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 1 `, `referer has no opening quote`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 1 "-"`, `referer is not followed by a space`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 1 "-" "curl`, `user agent has no closing quote`},
		{`192.0.2.1 - - ` + time + ` "GET / HTTP/1.1" 200 1 "-" "curl" "-"`, `user agent is not the end of the line`},
		{`192.0.2.1 - - [` + strings.Repeat("9", 50) + `] "-" 200 1`, `time is "` + strings.Repeat("9", 40) + `"…`},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			_, err := accesslog.Parse(c.line)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestMethodAndPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ request, method, path string }{
		{"GET / HTTP/1.1", "GET", "/"},
		{"POST /a/b?c=d?e HTTP/2.0", "POST", "/a/b"},
		{"GET /with space?q HTTP/1.1", "GET", "/with space"},
		{"GET /old", "GET", "/old"},
		{"OPTIONS * HTTP/1.1", "OPTIONS", "*"},
		{"CONNECT example.com:443 HTTP/1.1", "CONNECT", "example.com:443"},
		{"GET http://example.com/a?b HTTP/1.1", "GET", "http://example.com/a"},
		{"-", "-", "-"},
		{"", "-", ""},
		{"GET", "-", "GET"},
		{"GET  HTTP/1.1", "-", "GET  HTTP/1.1"},
		{`\x16\x03\x01 / HTTP/1.1`, "-", `\x16\x03\x01 / HTTP/1.1`},
		{"hello world", "-", "hello world"},
		{" / HTTP/1.1", "-", " / HTTP/1.1"},
	} {
		t.Run(c.request, func(t *testing.T) {
			t.Parallel()
			e := accesslog.Entry{Request: c.request}
			require.Equal(t, c.method, e.Method())
			require.Equal(t, c.path, e.Path())
		})
	}
}

// FuzzParse holds the parser to its word that a line is understood as a whole: put together again, the parts are the line.
func FuzzParse(f *testing.F) {
	for _, line := range []string{
		`192.0.2.1 - frank [14/Mar/2026:09:26:53 +0000] "GET /a?b=c HTTP/1.1" 200 2326`,
		`2001:db8::1 - - [14/Mar/2026:09:26:53 -0730] "GET / HTTP/2.0" 304 - "https://example.com/" "a \"b\" \\"`,
		`192.0.2.1 - - [14/Mar/2026:09:26:53 +0000] "-" - - "" ""`,
		`192.0.2.1 - - [14/Mar/2026:09:26:53 +0000] "\x16\x03" 400 157 "-" "-`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := accesslog.Parse(line)
		if err != nil {
			require.Zero(t, e)
			return
		}
		again := e.Host + " " + e.Ident + " " + e.User + " [" + e.Time.Format("02/Jan/2006:15:04:05 -0700") + `] "` +
			e.Request + `" ` + e.Status + " " + e.Bytes
		if e.Combined {
			again += ` "` + e.Referer + `" "` + e.UserAgent + `"`
		}
		require.Equal(t, line, again)
		require.Contains(t, e.Request, e.Path())
		if method := e.Method(); method != "-" {
			require.True(t, strings.HasPrefix(e.Request, method+" "))
		}
	})
}
