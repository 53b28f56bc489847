// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package reading

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// examplePipelines runs the scripts of the pipelines in docs/recommend.md with the real podfit: they send the comment and end with the exit code of
// podfit, and send nothing if podfit fails. Its exit code 4 is made, because no workload here is at high risk.
func examplePipelines(t *testing.T, w *world) {
	text, err := os.ReadFile(filepath.Join(w.root, "docs", "recommend.md"))
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string]string{} // by the program that sends the comment
	for _, part := range strings.Split(string(text), "\n```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "\n```")
		var steps []struct{ Run string }
		var job map[string]struct{ Script string }
		switch {
		case yaml.Unmarshal([]byte(block), &steps) == nil && len(steps) == 1:
			scripts["gh"] = steps[0].Run
		case yaml.Unmarshal([]byte(block), &job) == nil && job["requests"].Script != "":
			scripts["curl"] = job["requests"].Script
		}
	}
	if len(scripts) != 2 {
		t.Fatalf("docs/recommend.md has the pipelines %q, want one for gh and one for curl", scripts)
	}
	for sender, script := range scripts {
		for _, tt := range []struct {
			flags, end string // end is the last command of podfit
			code       int
			sent       bool
		}{
			{"-n team-0", "", 0, true},
			{"-n team-0", "exit 4", 4, true},
			{"--kubeconfig=/no/such/one", "", 1, false},
		} {
			dir := t.TempDir()
			podfit := "#!/bin/sh\n" + w.binary + ` "$@" --kubeconfig=` + w.reader + " --history=2d " + tt.flags + "\n" + tt.end + "\n"
			send := "#!/bin/sh\necho \"$@\" > sent\n"
			for name, program := range map[string]string{"podfit": podfit, sender: send} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(program), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			run := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
			run.Dir = dir
			run.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "PROMETHEUS_URL=", "XDG_CACHE_HOME="+w.Dir, "PULL_REQUEST=7", "TOKEN=x", "CI_API_V4_URL=https://gitlab.example/api/v4", "CI_PROJECT_ID=3", "CI_MERGE_REQUEST_IID=7")
			var errs bytes.Buffer
			run.Stderr = &errs
			err := run.Run()
			var exit *exec.ExitError
			code := 0
			if errors.As(err, &exit) {
				code = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			sent, readErr := os.ReadFile(filepath.Join(dir, "sent"))
			if code != tt.code || (readErr == nil) != tt.sent || tt.sent && !strings.Contains(string(sent), "7") {
				t.Errorf("%s with %q and %q: exit code %d, want %d; sent %q: %v; %s", sender, tt.flags, tt.end, code, tt.code, sent, readErr, errs.String())
			}
			comment, _ := os.ReadFile(filepath.Join(dir, "comment.md"))
			if tt.sent && (!strings.HasPrefix(string(comment), "## Recommended requests\n") || !strings.Contains(string(comment), "team-0/")) {
				t.Errorf("%s: the comment is\n%s", sender, comment)
			}
		}
	}
}
