package inspect

import (
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
	"testing/iotest"
)

// TestIn finds a secret in any form and place, however the reader cuts it, and nothing where there is none.
func TestIn(t *testing.T) {
	const secret = "correct horse \"battery\""
	s, err := NewSecrets(map[string][]byte{"S": []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{secret, hex.EncodeToString([]byte(secret)), base64.StdEncoding.EncodeToString([]byte(secret))} {
		for _, before := range []int{0, 1, 65530, 65536, 131000, 200_001} {
			text := strings.Repeat("x", before) + form
			for _, after := range []string{"", "y", strings.Repeat("z", 70_000)} {
				if in, err := s.In(strings.NewReader(text + after)); !in || err != nil {
					t.Errorf("%q after %d bytes: %v, %v", form, before, in, err)
				}
			}
			if in, err := s.In(strings.NewReader(text[:len(text)-4])); in && before > 0 || err != nil {
				t.Errorf("%q without its end after %d bytes: %v, %v", form, before, in, err)
			}
		}
		if in, err := s.In(iotest.OneByteReader(strings.NewReader("a" + form))); !in || err != nil {
			t.Errorf("%q byte by byte: %v, %v", form, in, err)
		}
	}
	for _, none := range []*Secrets{nil, {}} {
		if in, err := none.In(strings.NewReader(secret)); in || err != nil {
			t.Error("found without secrets")
		}
	}
}
