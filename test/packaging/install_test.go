// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package packaging

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The kustomizations of docs/install.md can be built, and its values and files exist.
func TestInstallPage_examples_work(t *testing.T) {
	page := read(t, root+"/docs/install.md")
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(page, -1)
	for _, block := range blocks {
		all := build(t, overlay(t, strings.ReplaceAll(block[1], "PATH/podfit/deploy", "DEPLOY")))
		c := deployment(t, all, "podfit").Spec.Template.Spec.Containers[0]
		if c.Image != "registry.example.com/podfit:0.1.0" || c.Args[len(c.Args)-1] != "--web-address=:8945" && c.Args[len(c.Args)-1] != "--eviction-tolerance=0.3" {
			t.Errorf("image %s, arguments %v", c.Image, c.Args)
		}
	}
	var set []string
	for _, m := range regexp.MustCompile(`--set (\S+)`).FindAllStringSubmatch(page, -1) {
		set = append(set, m[1])
	}
	if len(blocks) != 1 || len(set) != 3 {
		t.Errorf("%d kustomizations, assignments %v", len(blocks), set)
	}
	if _, err := reuse(t, upstream(t), nil, set...); err != nil {
		t.Error(err)
	}
	known := map[string]bool{}
	keys("", load(t, folder).Values, func(key string, _ any) { known[key] = true })
	for _, m := range regexp.MustCompile("`([a-z]+(?:\\.[a-zA-Z]+)+)(?:=[^`]*)?`").FindAllStringSubmatch(page, -1) {
		if !known[m[1]] && !strings.HasSuffix(m[1], ".yaml") {
			t.Errorf("docs/install.md names the value %s, which does not exist", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`-[fk] (deploy/\S*)`).FindAllStringSubmatch(page, -1) {
		path := strings.Trim(m[1], "`,")
		if found, err := filepath.Glob(filepath.Join(root, path)); err != nil || len(found) != 1 {
			t.Errorf("docs/install.md names %s, which does not exist", path)
		}
	}
}
