package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"reflect"

	"gobox/policy"
)

// The plan goes to init as the exported fields of its structs in order, integers as varints, strings
// and slices behind their length. Both ends are one binary, so that there is no version to keep, and any
// byte is allowed in an argument, as JSON would not have it.

// maxWire bounds one encoded plan; execve(2) takes less than this in arguments.
const maxWire = 64 << 20

var errWire = errors.New("malformed plan")

// encode appends v, which is made of structs, slices, strings, integers and booleans.
func encode(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			b = encode(b, v.Field(i))
		}
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		b = encode(append(b, 1), v.Elem())
	case reflect.Slice:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(b, v.Bytes()...)
		}
		for i := range v.Len() {
			b = encode(b, v.Index(i))
		}
	case reflect.String:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		b = append(b, v.String()...)
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		b = append(b, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b = binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		b = binary.AppendUvarint(b, v.Uint())
	case reflect.Float64:
		b = binary.NativeEndian.AppendUint64(b, math.Float64bits(v.Float()))
	default:
		panic(fmt.Sprintf("sandbox: a plan cannot hold a %s", v.Type()))
	}
	return b
}

// decode fills v from b and returns the rest.
func decode(b []byte, v reflect.Value) ([]byte, error) {
	switch v.Kind() {
	case reflect.Struct:
		var err error
		for i := range v.NumField() {
			if b, err = decode(b, v.Field(i)); err != nil {
				return nil, err
			}
		}
		return b, nil
	case reflect.Pointer:
		if len(b) == 0 || b[0] > 1 {
			return nil, errWire
		}
		if b[0] == 0 {
			return b[1:], nil
		}
		v.Set(reflect.New(v.Type().Elem()))
		return decode(b[1:], v.Elem())
	case reflect.Slice:
		n, b, err := decodeLen(b)
		if err != nil || n == 0 {
			return b, err
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(b[:n:n])
			return b[n:], nil
		}
		// Every element takes a byte at least, so that n is bounded by what was sent.
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			if b, err = decode(b, v.Index(i)); err != nil {
				return nil, err
			}
		}
		return b, nil
	case reflect.String:
		n, b, err := decodeLen(b)
		if err != nil {
			return nil, err
		}
		v.SetString(string(b[:n]))
		return b[n:], nil
	case reflect.Bool:
		if len(b) == 0 || b[0] > 1 {
			return nil, errWire
		}
		v.SetBool(b[0] == 1)
		return b[1:], nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		x, n := binary.Varint(b)
		if n <= 0 || v.OverflowInt(x) {
			return nil, errWire
		}
		v.SetInt(x)
		return b[n:], nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		x, n := binary.Uvarint(b)
		if n <= 0 || v.OverflowUint(x) {
			return nil, errWire
		}
		v.SetUint(x)
		return b[n:], nil
	case reflect.Float64:
		if len(b) < 8 {
			return nil, errWire
		}
		v.SetFloat(math.Float64frombits(binary.NativeEndian.Uint64(b)))
		return b[8:], nil
	}
	return nil, errWire
}

// decodeLen reads a length that the rest of b can hold.
func decodeLen(b []byte) (int, []byte, error) {
	x, n := binary.Uvarint(b)
	if n <= 0 || x > uint64(len(b)-n) {
		return 0, nil, errWire
	}
	return int(x), b[n:], nil
}

// Digest is the SHA-256, in hexadecimal, of everything in a plan but the command itself: two runs with the
// same digest had the same walls and limits.
func Digest(p *policy.Plan) string {
	q := *p
	q.Exec.Argv = nil
	sum := sha256.Sum256(encode(make([]byte, 0, 16<<10), reflect.ValueOf(&q).Elem()))
	return hex.EncodeToString(sum[:])
}
