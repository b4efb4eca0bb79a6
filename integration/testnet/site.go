package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"gobox/integration/testnet/heard"

	"golang.org/x/net/websocket"
)

// web is what every name serves over HTTP, by HTTP/2 too where there is TLS:
//
//	/large            64 MiB
//	/redirect/TARGET  a redirect to http://TARGET
//	/echo             what is sent, as it comes
//	/socket           a WebSocket that greets and gives every message back
//	/git/NAME.git     git's smart protocol
//	/npm/NAME         npm's metadata of a package, with this host's name in its addresses
//	the site's files  as they are
//	all else          a line that says what was asked for
func (s *services) web() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.CopyN(w, zeros{}, 64<<20) })
	mux.HandleFunc("/redirect/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+strings.TrimPrefix(r.URL.Path, "/redirect/"), http.StatusFound)
	})
	mux.HandleFunc("/echo", echoBody)
	mux.Handle("/socket", websocket.Server{Handler: echoMessages})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "served %s %s %d\n", r.Host, r.URL.Path, n)
	})
	if s.site != "" {
		mux.Handle("/git/", gitServer(filepath.Join(s.site, "git")))
		mux.HandleFunc("/npm/{name}", s.npm)
		for _, dir := range []string{"data", "simple", "tarballs", "mod"} {
			mux.Handle("/"+dir+"/", http.FileServer(http.Dir(s.site)))
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.log.Write(heard.Entry{
			Kind: heard.Request, Local: r.Context().Value(http.LocalAddrContextKey).(net.Addr).String(), Name: r.Host,
			Detail: r.Method + " " + r.URL.String() + " " + r.Header.Get("Authorization"),
		})
		mux.ServeHTTP(w, r)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// echoBody answers while the request still comes, and ends when that does.
func echoBody(w http.ResponseWriter, r *http.Request) {
	control := http.NewResponseController(w)
	_ = control.EnableFullDuplex() // HTTP/2 always has it
	w.WriteHeader(http.StatusOK)
	_ = control.Flush()
	for buf := make([]byte, 64<<10); ; {
		n, err := r.Body.Read(buf)
		if _, werr := w.Write(buf[:n]); werr != nil || err != nil {
			return
		}
		_ = control.Flush()
	}
}

// echoMessages speaks first, answers each message, and says goodbye when it is told to.
func echoMessages(ws *websocket.Conn) {
	defer ws.Close() // says so by a message
	_ = websocket.Message.Send(ws, []byte("welcome"))
	for {
		var message []byte
		if err := websocket.Message.Receive(ws, &message); err != nil {
			return
		}
		if err := websocket.Message.Send(ws, message); err != nil || string(message) == "goodbye" {
			return
		}
	}
}

// gitServer serves the repositories of a folder.
func gitServer(dir string) http.Handler {
	path, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		return http.NotFoundHandler()
	}
	return &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(path)), "git-http-backend"), Root: "/git",
		Env: []string{"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1"},
	}
}

func (s *services) npm(w http.ResponseWriter, r *http.Request) {
	text, err := os.ReadFile(filepath.Join(s.site, "npm", filepath.Base(r.PathValue("name"))+".json"))
	if err != nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(bytes.ReplaceAll(text, []byte("https://HOST/"), []byte("https://"+r.Host+"/")))
}
