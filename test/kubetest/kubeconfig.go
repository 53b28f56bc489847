// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package kubetest

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// A Context is the context of a kubeconfig. All fields may be empty.
type Context struct {
	Name      string // "": c
	Namespace string
	User      string
}

// Kubeconfig writes a kubeconfig with one context, c, and returns its path.
func Kubeconfig(t testing.TB, server string) string {
	t.Helper()
	return Context{}.Kubeconfig(t, server)
}

// Kubeconfig writes a kubeconfig with this context, and returns its path.
func (c Context) Kubeconfig(t testing.TB, server string) string {
	t.Helper()
	name := cmp.Or(c.Name, "c")
	type object map[string]any
	var users []object
	if c.User != "" {
		users = []object{{"name": c.User, "user": object{}}}
	}
	text, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": "c", "cluster": object{"server": server}}}, "users": users,
		"contexts": []object{{"name": name, "context": object{"cluster": "c", "namespace": c.Namespace, "user": c.User}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
