package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// sshServer runs no shell: it knows the commands of [sshServer.command].
type sshServer struct {
	config *ssh.ServerConfig
	git    string
}

// newSSH takes the host's key and the one key that may log in from the site's folder ssh.
func newSSH(site string) (*sshServer, error) {
	text, err := os.ReadFile(filepath.Join(site, "ssh/host"))
	if err != nil {
		return nil, err
	}
	host, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, err
	}
	if text, err = os.ReadFile(filepath.Join(site, "ssh/user.pub")); err != nil {
		return nil, err
	}
	user, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), user.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	config.AddHostKey(host)
	return &sshServer{config: config, git: filepath.Join(site, "git")}, nil
}

func (s *sshServer) serve(c net.Conn) {
	_, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for channel := range channels {
		if channel.ChannelType() != "session" {
			_ = channel.Reject(ssh.UnknownChannelType, "there are sessions only")
			continue
		}
		ch, requests, err := channel.Accept()
		if err != nil {
			return
		}
		go s.session(ch, requests)
	}
}

func (s *sshServer) session(ch ssh.Channel, requests <-chan *ssh.Request) {
	defer ch.Close()
	for r := range requests {
		var line struct{ Command string }
		if r.Type != "exec" || ssh.Unmarshal(r.Payload, &line) != nil {
			_ = r.Reply(false, nil)
			continue
		}
		_ = r.Reply(true, nil)
		go ssh.DiscardRequests(requests)
		status := s.command(ch, line.Command)
		_ = ch.CloseWrite()
		_, _ = ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{status}))
		return
	}
}

// command runs one: "cat", "fail" or git's "git-upload-pack '/NAME.git'".
func (s *sshServer) command(ch ssh.Channel, line string) uint32 {
	name, arg, _ := strings.Cut(line, " ")
	switch name {
	case "cat":
		_, _ = io.Copy(ch, ch)
		return 0
	case "fail":
		fmt.Fprintln(ch.Stderr(), "failed as asked")
		return 7
	case "git-upload-pack":
		cmd := exec.Command("git-upload-pack", filepath.Join(s.git, filepath.Base(strings.Trim(arg, "'"))))
		cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
		// Wait would wait for a client that says nothing more.
		in, err := cmd.StdinPipe()
		if err != nil || cmd.Start() != nil {
			return 1
		}
		go func() { _, _ = io.Copy(in, ch); in.Close() }()
		if cmd.Wait() == nil {
			return 0
		}
		return 1
	}
	fmt.Fprintln(ch.Stderr(), "no such command")
	return 127
}
