package record

import "testing"

// TestOwnName: a note removes folders of its own run only.
func TestOwnName(t *testing.T) {
	for path, want := range map[string]bool{
		"/d/gobox-scratch-a-XY34": true, "/d/.gobox-output-a-XY34": true,
		"/d/gobox-scratch-ab-XY34": false, "/d/gobox-scratch-a-b-XY34": false, "/d/gobox-scratch-a": false, "/d/gobox-scratch-a-": false,
		"/gobox-scratch-a-XY34/d": false, "a-XY34": false, "": false,
	} {
		if got := ownName(path, "a"); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
