// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// kubectlScript runs Krew for "kubectl krew install", as the validator of Krew calls it, with a local archive instead of a download.
const kubectlScript = `#!/bin/sh
set -eu
[ "$1" = krew ]
shift
archive="%[2]s/kubectl-podfit_1.2.3_${KREW_OS}_${KREW_ARCH}"
[ "$KREW_OS" = windows ] && archive="$archive.zip" || archive="$archive.tar.gz"
exec env HOME="$KREW_ROOT" KREW_NO_UPGRADE_CHECK=1 HTTPS_PROXY=http://127.0.0.1:1 "%[1]s/krew" "$@" --archive="$archive"
`

// krewPrograms compiles Krew and its validator of manifests, and returns their folder. It also contains the script kubectl, which installs
// plugins from the archives of another folder.
func krewPrograms(t *testing.T, archives string) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", dir, "sigs.k8s.io/krew/cmd/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compile Krew: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), fmt.Appendf(nil, kubectlScript, dir, archives), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runKrew runs a program of the folder without network, with the folder first in PATH.
func runKrew(t *testing.T, programs, home, name string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(programs, name), args...)
	cmd.Env = []string{
		"PATH=" + programs + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + home, "KREW_ROOT=" + filepath.Join(home, "krew"),
		"KREW_NO_UPGRADE_CHECK=1", "HTTPS_PROXY=http://127.0.0.1:1",
	}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// checkInstallation installs the plugin of a release with Krew, and runs it.
func checkInstallation(t *testing.T, all map[string][]byte) {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	manifest, archive := filepath.Join(dir, "podfit.yaml"), "kubectl-podfit_1.2.3_linux_"+runtime.GOARCH+".tar.gz"
	for name, content := range map[string][]byte{"podfit.yaml": all["krew/podfit.yaml"], archive: all[archive]} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	programs := krewPrograms(t, dir)
	if out, err := runKrew(t, programs, home, "krew", "install", "--manifest="+manifest, "--archive="+filepath.Join(dir, archive)); err != nil {
		t.Fatalf("krew install: %v\n%s", err, out)
	}
	if out, err := runKrew(t, filepath.Join(home, "krew", "bin"), home, "kubectl-podfit", "version"); err != nil || !strings.HasPrefix(out, "podfit 1.2.3 ") {
		t.Errorf("kubectl podfit version: %v, %s", err, out)
	}
	if out, err := runKrew(t, programs, home, "validate-krew-manifest", "-manifest="+manifest); err != nil {
		t.Errorf("validate-krew-manifest: %v\n%s", err, out)
	}
}

// The index of Krew accepts only manifests that its validator accepts: it checks the platforms, and installs the archive of each of them.
func TestWriteKrew_allPlatforms_validatorInstallsEach(t *testing.T) {
	dir := t.TempDir()
	r := release{root: "../..", out: filepath.Join(dir, "out"), version: "1.2.3", created: time.Unix(epoch, 0).UTC(), binaries: dir, sums: map[string]string{}}
	r.licenses = []file{
		{name: "LICENSE", mode: 0o644, content: []byte("license")}, {name: "NOTICE", mode: 0o644, content: []byte("notice")},
		{name: "THIRD-PARTY-LICENSES.txt", mode: 0o644, content: []byte("licenses")},
	}
	var err error
	if r.platforms, err = platformsOf(allPlatforms); err != nil {
		t.Fatal(err)
	}
	source, small := filepath.Join(dir, "main.go"), filepath.Join(dir, "small") // any binary of Go
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", small, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, p := range r.platforms {
		if err := os.Link(small, r.binary(p)); err != nil {
			t.Fatal(err)
		}
		if err := r.writePlatform(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.writeKrew(); err != nil {
		t.Fatal(err)
	}
	out, err := runKrew(t, krewPrograms(t, r.out), dir, "validate-krew-manifest", "-manifest="+filepath.Join(r.out, "krew", "podfit.yaml"))
	if err != nil || !strings.Contains(out, "all 7 spec.platforms installed fine") {
		t.Errorf("validate-krew-manifest: %v\n%s", err, out)
	}
}
