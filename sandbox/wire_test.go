package sandbox

import (
	"math/rand"
	"reflect"
	"testing"
	"testing/quick"
)

func TestWireRoundTrip(t *testing.T) {
	for range 50 {
		v, ok := quick.Value(reflect.TypeFor[handover](), rand.New(rand.NewSource(rand.Int63())))
		if !ok {
			t.Fatal("no value")
		}
		want := v.Interface().(handover)
		b := encode(nil, v)
		var got handover
		rest, err := decode(b, reflect.ValueOf(&got).Elem())
		if err != nil || len(rest) != 0 {
			t.Fatalf("decode: %v, %d bytes left", err, len(rest))
		}
		// An empty slice comes back as none, which means the same in a plan.
		if again := encode(nil, reflect.ValueOf(got)); string(again) != string(b) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

func TestPlanFile(t *testing.T) {
	h := &handover{Terminal: true, Mounts: []int{3, 5}}
	h.Plan.Exec.Argv = []string{"a", "", "\xff\xfe\n", string(make([]byte, 1<<20))}
	f, err := planFile(h)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := readPlan(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, h) {
		t.Errorf("got %+v, want %+v", got, h)
	}
	if at := readMark(f); at != 0 {
		t.Errorf("a start at %v", at)
	}
}

// Whatever comes over the wire, decoding does not panic.
func FuzzDecode(f *testing.F) {
	f.Add(encode(nil, reflect.ValueOf(handover{Mounts: []int{1}})))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	full, _ := quick.Value(reflect.TypeFor[handover](), rand.New(rand.NewSource(1)))
	f.Add(encode(nil, full))
	f.Fuzz(func(t *testing.T, b []byte) {
		var h handover
		rest, err := decode(b, reflect.ValueOf(&h).Elem())
		if err != nil {
			return
		}
		if len(rest) > len(b) {
			t.Fatal("more left than there was")
		}
		// What was understood is said again and means the same: no two plans are one.
		var again handover
		once := encode(nil, reflect.ValueOf(h))
		if rest, err := decode(once, reflect.ValueOf(&again).Elem()); err != nil || len(rest) != 0 {
			t.Fatalf("not understood again: %v, %d bytes left", err, len(rest))
		}
		if twice := encode(nil, reflect.ValueOf(again)); string(twice) != string(once) {
			t.Fatalf("%x became %x", once, twice)
		}
	})
}
