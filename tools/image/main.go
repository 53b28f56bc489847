// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

// Command image builds podfit's container images, without Docker and without a registry, as an OCI layout. The same sources, version and
// time give the same bytes, in every folder.
//
// The images podfit, vpa-recommender, vpa-updater and vpa-admission-controller share their layer and differ in their entrypoint, because
// upstream's manifests and chart set arguments and no command.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// allPlatforms are those of upstream's images.
const allPlatforms = "linux/amd64,linux/arm64,linux/arm/v7,linux/ppc64le,linux/s390x"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stderr)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// A request is what to build.
type request struct {
	root      string // podfit's repository
	out       string // folder of the OCI layout
	version   string
	created   time.Time
	platforms []v1.Platform
	binaries  string // folder with compiled binaries, or ""
}

func run(ctx context.Context, args []string, progress io.Writer) error {
	var r request
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.StringVar(&r.root, "root", "../..", "podfit's repository")
	fs.StringVar(&r.out, "out", "", "folder of the OCI layout; it is replaced")
	fs.StringVar(&r.version, "version", "dev", "version of podfit, and tag of the images")
	fs.StringVar(&r.binaries, "binaries", "", "folder with compiled binaries named podfit-OS-ARCHITECTURE; without it, they are compiled")
	epoch := fs.Int64("epoch", 0, "Unix time of the images and of their files (SOURCE_DATE_EPOCH)")
	platforms := fs.String("platforms", allPlatforms, "comma-separated list of platforms")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if r.out == "" {
		return fmt.Errorf("--out is required: the folder of the OCI layout")
	}
	for name := range strings.SplitSeq(*platforms, ",") {
		p, err := v1.ParsePlatform(name)
		if err != nil {
			return fmt.Errorf("read --platforms: %w", err)
		}
		if p.OS != "linux" || p.Architecture == "" {
			return fmt.Errorf("--platforms must be a list of linux/ARCHITECTURE[/VARIANT], got %q", name)
		}
		r.platforms = append(r.platforms, *p)
	}
	r.created = time.Unix(*epoch, 0).UTC()
	licenses, err := readLicenses(ctx, r.root)
	if err != nil {
		return err
	}
	return write(r, licenses, func(p v1.Platform) ([]byte, error) {
		if r.binaries != "" {
			return os.ReadFile(filepath.Join(r.binaries, "podfit-"+p.OS+"-"+p.Architecture))
		}
		fmt.Fprintf(progress, "compiling for %s\n", p.String())
		return compile(ctx, r, p)
	})
}

// compile returns the static binary for a platform.
func compile(ctx context.Context, r request, p v1.Platform) ([]byte, error) {
	dir, err := os.MkdirTemp("", "podfit-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "podfit")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -X podfit.dev/podfit/internal/app/process.Version="+r.version, "-o", binary, ".")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.OS, "GOARCH="+p.Architecture)
	if p.Architecture == "arm" {
		cmd.Env = append(cmd.Env, "GOARM="+strings.TrimPrefix(p.Variant, "v"))
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile for %s: %w\n%s", p.String(), err, out)
	}
	return os.ReadFile(binary)
}

// readLicenses returns the license files of the images by their names.
func readLicenses(ctx context.Context, root string) (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "podfit-licenses-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	thirdParty := filepath.Join(dir, "THIRD-PARTY-LICENSES.txt")
	cmd := exec.CommandContext(ctx, filepath.Join(root, "tools", "licenses"), thirdParty)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("collect the licenses of linked modules: %w\n%s", err, out)
	}
	out := map[string][]byte{}
	for _, path := range []string{filepath.Join(root, "LICENSE"), filepath.Join(root, "NOTICE"), thirdParty} {
		if out[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return nil, err
		}
	}
	out["THIRD-PARTY-LICENSES.txt"] = append(out["THIRD-PARTY-LICENSES.txt"], rootsLicense...)
	return out, nil
}
