//go:build gobox_walltest

package sandbox

// wallTest lets a plan go without the mount tree, so that the other walls can be seen to hold alone. No
// shipped binary has this tag.
const wallTest = true
