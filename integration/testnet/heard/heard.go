// Package heard is what the servers of command testnet write down, and what tests read of it.
package heard

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
)

// Kinds of Entry.
const (
	Connection = "connection" // accepted, by any server
	Request    = "request"    // of HTTP
	Query      = "query"      // of DNS
)

// Entry is one thing that a server heard.
type Entry struct {
	Kind   string
	Local  string `json:",omitempty"` // address and port that were dialled
	Name   string `json:",omitempty"` // asked for
	Detail string `json:",omitempty"` // type of a query; method, URL and Authorization of a request
}

// Log is written by many servers.
type Log struct {
	mu sync.Mutex
	f  *os.File
}

// Create makes the file.
func Create(path string) (*Log, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	return &Log{f: f}, err
}

// Write appends one entry.
func (l *Log) Write(e Entry) {
	line, err := json.Marshal(e)
	if err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.f.Write(append(line, '\n'))
}

// Close closes the file; what is written afterwards is lost.
func (l *Log) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.f.Close()
}

// Read gives what is in the file.
func Read(path string) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var list []Entry
	for s := bufio.NewScanner(f); s.Scan(); {
		var e Entry
		if err := json.Unmarshal(s.Bytes(), &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}
