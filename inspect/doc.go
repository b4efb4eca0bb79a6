// Package inspect looks at what a command wrote: whether it is the JSON it was to be ([Compile], [Schema.JSON]), where in
// it are secrets of other people's ([Scan]), and it keeps the caller's own secrets out of what is stored
// ([Secrets]). All three read a stream once, with memory that does not grow with it, and in time linear in
// its length. Nothing here runs at package initialisation, which a plain run would pay for.
package inspect
