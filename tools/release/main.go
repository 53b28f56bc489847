// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command release builds the files of a release of podfit: archives, demo archives, container images, the Helm chart, manifests, the manifest for Krew,
// man pages, shell completions, bills of materials and checksums. The same sources, version and time give the same bytes, in every
// folder.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// allPlatforms are those of upstream's images, and those on which people run commands.
const allPlatforms = "linux/amd64,linux/arm64,linux/arm,linux/ppc64le,linux/s390x,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A platform is an operating system and an architecture, in Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// exe returns the file name of a program.
func (p platform) exe(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

// A release is what to build.
type release struct {
	root      string // podfit's repository
	out       string // folder of the release
	version   string // without v
	created   time.Time
	platforms []platform
	binaries  string // folder of the compiled binaries, named podfit-OS-ARCHITECTURE

	licenses []file // of the archives
	demo     []file // licenses of the demo archives
	manual   []file // man pages and completions
	sums     map[string]string
}

// semantic matches the versions that Helm and Krew accept.
var semantic = regexp.MustCompile(`^v?((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?)$`)

// revision matches the output of git describe in a repository without tags.
var revision = regexp.MustCompile(`^[0-9a-f]{7,40}(-dirty)?$`)

// versionOf returns the version without v. Between releases it is made of the version of the chart and of the commit.
func versionOf(text, chart string) (string, error) {
	switch m := semantic.FindStringSubmatch(text); {
	case m != nil:
		return m[1], nil
	case revision.MatchString(text):
		return chart + "-dev.g" + text, nil
	}
	return "", fmt.Errorf("--version must be a semantic version such as 1.2.3 or a commit, got %q", text)
}

func platformsOf(text string) (out []platform, err error) {
	for name := range strings.SplitSeq(text, ",") {
		if !slices.Contains(strings.Split(allPlatforms, ","), name) {
			return nil, fmt.Errorf("--platforms must be a list of %s, got %q", strings.ReplaceAll(allPlatforms, ",", ", "), name)
		}
		os, arch, _ := strings.Cut(name, "/")
		out = append(out, platform{os, arch})
	}
	return out, nil
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	r := release{sums: map[string]string{}}
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	fs.SetOutput(progress)
	fs.StringVar(&r.root, "root", "../..", "podfit's repository")
	fs.StringVar(&r.out, "out", "", "folder of the release; it is replaced")
	version := fs.String("version", "", "semantic version, or commit between releases")
	epoch := fs.Int64("epoch", 0, "Unix time of all files (SOURCE_DATE_EPOCH)")
	platforms := fs.String("platforms", allPlatforms, "comma-separated list of platforms")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if r.out == "" {
		return errors.New("--out is required: the folder of the release")
	}
	chart, err := chartVersion(r.root)
	if err != nil {
		return err
	}
	if r.version, err = versionOf(*version, chart); err != nil {
		return err
	}
	if r.platforms, err = platformsOf(*platforms); err != nil {
		return err
	}
	r.created = time.Unix(*epoch, 0).UTC()
	return r.build(ctx, chart, progress)
}

// A step is a part of the work that takes seconds or minutes.
type step struct {
	title string
	do    func() error
}

// build runs all steps in a new folder, which takes the place of the previous one when it is complete.
func (r release) build(ctx context.Context, chart string, progress io.Writer) error {
	final := r.out
	r.out = final + ".new"
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	defer os.RemoveAll(r.out)
	var err error
	if r.binaries, err = os.MkdirTemp("", "podfit-release-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.binaries)
	steps := r.steps(ctx, chart, progress)
	for i, s := range steps {
		fmt.Fprintf(progress, "%2d/%d %s\n", i+1, len(steps), s.title)
		started := time.Now()
		if err := s.do(); err != nil {
			return fmt.Errorf("%s: %w", s.title, err)
		}
		fmt.Fprintf(progress, "      done in %.0f s\n", time.Since(started).Seconds())
	}
	if err := os.RemoveAll(final); err != nil {
		return err
	}
	return os.Rename(r.out, final)
}

func (r *release) steps(ctx context.Context, chart string, progress io.Writer) []step {
	steps := []step{
		{"licenses of linked modules", func() (err error) { r.licenses, err = r.readLicenses(ctx); return err }},
		{"man pages and completions", func() error { return r.writeManual(ctx) }},
		{"Helm chart " + r.version, r.writeChart},
		{"manifests", func() error { return r.writeManifests(chart) }},
	}
	var images []string
	for _, p := range r.platforms {
		if p.os == "linux" {
			images = append(images, p.String()+variant(p))
		}
		steps = append(steps,
			step{"compile for " + p.String(), func() error { return r.compile(ctx, p) }},
			step{"archives and bill of materials for " + p.String(), func() error { return r.writePlatform(p) }})
		if hasDemo(p) {
			if !slices.ContainsFunc(steps, func(s step) bool { return s.title == demoLicenses }) {
				steps = append(steps, step{demoLicenses, func() (err error) { r.demo, err = r.readLicenses(ctx, demoPackages...); return err }})
			}
			steps = append(steps,
				step{"compile the demo for " + p.String() + ", with Kubernetes", func() error { return r.compileDemo(ctx, p, progress) }},
				step{"demo archive for " + p.String(), func() error { return r.writeDemo(p) }})
		}
	}
	if len(images) > 0 {
		steps = append(steps, step{"images for " + strings.Join(images, ", "), func() error { return r.writeImages(ctx, images) }})
	}
	return append(steps, step{"manifest for Krew", r.writeKrew}, step{"checksums", r.writeSums})
}

// variant returns the variant of an architecture in the names of images.
func variant(p platform) string {
	if p.arch == "arm" {
		return "/v7"
	}
	return ""
}

func (r *release) binary(p platform) string {
	return filepath.Join(r.binaries, "podfit-"+p.os+"-"+p.arch)
}

// compile builds the static binary for a platform, with the flags of make build.
func (r *release) compile(ctx context.Context, p platform) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X podfit.dev/podfit/internal/app/process.Version="+r.version, "-o", r.binary(p), ".")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch, "GOARM=7")
	return command(cmd)
}

// command runs a command. Its output is part of the error.
func command(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("run %s: %w\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}

// readLicenses returns the license files of an archive with the executables of packages, in the form FOLDER:PACKAGE; none for podfit alone.
func (r *release) readLicenses(ctx context.Context, packages ...string) ([]file, error) {
	dir, err := os.MkdirTemp("", "podfit-licenses-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	thirdParty := filepath.Join(dir, "THIRD-PARTY-LICENSES.txt")
	args := append([]string{thirdParty}, packages...)
	if err := command(exec.CommandContext(ctx, filepath.Join(r.root, "tools", "licenses"), args...)); err != nil {
		return nil, err
	}
	var out []file
	for _, path := range []string{filepath.Join(r.root, "LICENSE"), filepath.Join(r.root, "NOTICE"), thirdParty} {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: filepath.Base(path), mode: 0o644, content: text})
	}
	return out, nil
}

// writeImages writes the container images with the binaries of the archives.
func (r *release) writeImages(ctx context.Context, platforms []string) error {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	out, err := filepath.Abs(filepath.Join(r.out, "images"))
	if err != nil {
		return err
	}
	return command(exec.CommandContext(ctx, "go", "-C", filepath.Join(root, "tools", "image"), "run", ".", "--root="+root, "--out="+out,
		"--version="+r.version, fmt.Sprintf("--epoch=%d", r.created.Unix()), "--platforms="+strings.Join(platforms, ","), "--binaries="+r.binaries))
}
