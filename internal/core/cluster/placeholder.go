// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"hash/fnv"
	"time"
)

// A CapacityRequest is an object in the cluster that asks for room for the replacement of a pod before the pod is evicted.
type CapacityRequest struct {
	Key
	UID     string
	Kind    RequestKind
	State   RequestState
	Created time.Time
	Size    Resources // what the replacement requests
	Node    string    // of a placeholder pod; "" if it has none
	Text    string    // why it failed; "" if it has not
}

// A RequestKind is the kind of a request for capacity.
type RequestKind uint8

// The kinds of requests for capacity.
const (
	PlaceholderPod      RequestKind = iota // a pod with the size of the replacement
	ProvisioningRequest                    // an object of the group autoscaling.x-k8s.io, for a cluster autoscaler
)

// String returns the Kubernetes name of the object.
func (k RequestKind) String() string {
	if k == ProvisioningRequest {
		return "ProvisioningRequest"
	}
	return "placeholder pod"
}

// A RequestState is the state of a request for capacity.
type RequestState uint8

// The states of a request for capacity.
const (
	RequestWaiting  RequestState = iota // neither accepted nor failed
	RequestAccepted                     // an autoscaler has accepted it
	RequestProvided                     // the capacity is there
	RequestFailed                       // the autoscaler cannot provide it, or has taken it back
)

// placeholderPrefix is the start of the name of every request for capacity.
const placeholderPrefix = "podfit-placeholder-"

// PlaceholderOf returns the key of the request for capacity for the replacement of a pod. The name follows from the UID of the pod, so a
// repeated request creates no second object, and the request for a pod is found without further data.
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
