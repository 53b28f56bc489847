// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import "hash/fnv"

// placeholderPrefix is the start of the name of every placeholder pod.
const placeholderPrefix = "podfit-placeholder-"

// PlaceholderOf returns the key of the placeholder pod that holds room for the replacement of a pod. The name follows from the UID of the
// pod, so a repeated request creates no second placeholder, and the pod of a placeholder is found without further data.
func PlaceholderOf(p *Pod) Key { return PlaceholderFor(p.Namespace, p.UID) }

// PlaceholderFor is PlaceholderOf for a pod of which only the namespace and the UID are known.
func PlaceholderFor(namespace, uid string) Key {
	const digits = "0123456789abcdef"
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // never fails
	name := []byte(placeholderPrefix)
	for _, b := range h.Sum(nil) {
		name = append(name, digits[b>>4], digits[b&15])
	}
	return Key{Namespace: namespace, Name: string(name)}
}
