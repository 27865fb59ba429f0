package ration

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
)

const (
	// maxRawKey is the greatest length of a key as the user gives it, bytes.
	maxRawKey = 512
	// maxKeyText is the greatest length of a tag, and of the parts behind it, that Key and TaggedKey leave readable.
	maxKeyText = 200
	// maxName is the greatest length of a prefix or a limiter name.
	maxName = 128
)

// Key builds a key from parts that may be untrusted text of any length: Key("tenant", id). Different parts give different
// keys: the parts are joined by colons, with those inside a part escaped, as are the braces that would make a hash tag; an
// empty part is a part. What is then longer than 200 bytes ends in a SHA-256 digest of the whole.
//
// Key() without parts is "", which every limiter refuses.
func Key(parts ...string) string {
	return shorten(join(parts))
}

// TaggedKey builds a key like Key that lives with everything of its tag, in one slot of a Redis Cluster:
// TaggedKey("acme", "user", id) is "{acme}:user:7". The tag may be untrusted text of any length too.
//
// TaggedKey without parts is "", which every limiter refuses.
func TaggedKey(tag string, parts ...string) string {
	if len(parts) == 0 {
		return ""
	}
	return "{" + shorten(join([]string{tag})) + "}:" + shorten(join(parts))
}

// partEscapes are the bytes that have a meaning in a key, in the form of RFC 3986, section 2.1.
var partEscapes = strings.NewReplacer("%", "%25", ":", "%3A", "{", "%7B", "}", "%7D")

// join escapes parts and puts colons between them. An empty part is a lone %, which no escaping leaves.
func join(parts []string) string {
	var b strings.Builder
	for i, part := range parts {
		if i > 0 {
			b.WriteByte(':')
		}
		if part == "" {
			b.WriteByte('%')
			continue
		}
		_, _ = partEscapes.WriteString(&b, part)
	}
	return b.String()
}

// shorten keeps the beginning of a long text, for whoever looks into Redis, and puts a digest in place of the rest, behind
// a mark that no escaping leaves.
func shorten(text string) string {
	if len(text) <= maxKeyText {
		return text
	}
	digest := sha256.Sum256([]byte(text))
	mark := "%sha256-" + base64.RawURLEncoding.EncodeToString(digest[:])
	return strings.ToValidUTF8(text[:maxKeyText-len(mark)], "") + mark
}

// hashTag is what Redis Cluster hashes of a key instead of the whole: the text between the first { and the next }, if it is
// not empty (Redis Cluster specification, "Hash tags").
func hashTag(key string) (tag string, found bool) {
	_, rest, found := strings.Cut(key, "{")
	if !found {
		return "", false
	}
	tag, _, found = strings.Cut(rest, "}")
	return tag, found && tag != ""
}

// slot is the slot of a Redis Cluster that a stored key lives in.
func slot(key string) uint16 {
	if tag, found := hashTag(key); found {
		key = tag
	}
	var crc uint16
	for i := range len(key) {
		crc = crc<<8 ^ crc16Table[byte(crc>>8)^key[i]]
	}
	return crc % 16384
}

// crc16Table is that of CRC-16/XMODEM, polynomial 0x1021, which Redis Cluster uses.
var crc16Table = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// keySpace makes the stored keys of a limiter: prefix:limiter:kind:key, and of a plan of a MultiPlan
// prefix:limiter/plan:kind:key.
type keySpace struct {
	head string // prefix:limiter
}

func newKeySpace(prefix, limiter string) keySpace { return keySpace{prefix + ":" + limiter} }

// wrappedEscapes are the bytes that would end a wrapping, or be taken for one.
var wrappedEscapes = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// stored is where the state of a key lives. A key with a hash tag stays as it is and lives in the slot of its tag; any
// other key is escaped and becomes its own hash tag. The two forms differ in a letter of the kind, so they never meet.
//
// A shard of a plan takes any key whole, escaped and with the name of the shard behind it, in a third form.
func (s keySpace) stored(p *preparedPlan, key string) string {
	if p.shard != "" {
		return s.head + ":" + p.kind + "s" + p.numbers + ":{" + wrappedEscapes.Replace(key) + ":" + p.shard + "}"
	}
	if _, found := hashTag(key); found {
		return s.head + ":" + p.kind + "t" + p.numbers + ":" + key
	}
	return s.head + ":" + p.kind + "w" + p.numbers + ":{" + wrappedEscapes.Replace(key) + "}"
}

// storedFor is where a plan of a MultiPlan keeps the state of a key: of its hash tag alone, if that is its scope.
func (s keySpace) storedFor(p part, key string) string {
	if tag, found := hashTag(key); found && p.scope == PerTag {
		key = "{" + tag + "}"
	}
	return keySpace{s.head + "/" + p.name}.stored(p.preparedPlan, key)
}

// storedApart is where the plans of a MultiPlan keep the state of a request that has keys of their own for some of them. All
// must live in one slot.
func (s keySpace) storedApart(p *preparedPlan, r Request) ([]any, error) {
	if p.parts == nil {
		return nil, fmt.Errorf("%w: Keys are of no use to %s, which is no MultiPlan", ErrInvalidKey, p.text)
	}
	var stored []any
	var placed []PlacedKey
	oneSlot, own := true, 0
	for _, one := range p.parts {
		key, found := r.Keys[one.name]
		if found {
			own++
		} else {
			key = r.Key
		}
		if err := checkKey(key); err != nil {
			return nil, fmt.Errorf("%w: the key of plan %q", err, one.name)
		}
		at := s.storedFor(one, key)
		tag, _ := hashTag(at)
		stored, placed = append(stored, at), append(placed, PlacedKey{one.name, key, tag, slot(at)})
		oneSlot = oneSlot && placed[0].Slot == slot(at)
	}
	switch {
	case own < len(r.Keys):
		return nil, fmt.Errorf("%w: Keys has a name that is not one of %s", ErrInvalidKey, p.text)
	case !oneSlot:
		return nil, &CrossSlotError{Keys: placed}
	default:
		return stored, nil
	}
}

func checkKey(key string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: it is empty", ErrInvalidKey)
	case len(key) > maxRawKey:
		return fmt.Errorf("%w: it has %d bytes: at most %d, or build it with Key", ErrInvalidKey, len(key), maxRawKey)
	}
	return nil
}

func checkName(what, name string) error {
	if !isName(name) {
		return fmt.Errorf("%w: %s %q: want 1 to %d of A-Z a-z 0-9 . _ -", ErrInvalidName, what, name, maxName)
	}
	return nil
}

func isName(name string) bool {
	for i := range len(name) {
		switch c := name[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return 1 <= len(name) && len(name) <= maxName
}
