// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package headroom

import (
	"podfit.dev/podfit/internal/core/change"
	"podfit.dev/podfit/internal/core/cluster"
)

// A Provider is a set of the ways to ask for capacity.
type Provider uint8

// The ways to ask for capacity.
const (
	NoProvider           Provider = 1 << iota // capacity must be asked for, but the cluster has no way to do it: pods are left
	PlaceholderPods                           // placeholder pods
	ProvisioningRequests                      // ProvisioningRequest objects, which are preferred

	NotAsked Provider = 0 // no capacity is asked for; pods are evicted without
)

func (p Provider) serves(k cluster.RequestKind) bool {
	if k == cluster.ProvisioningRequest {
		return p&ProvisioningRequests != 0
	}
	return p&PlaceholderPods != 0
}

// The causes of a failed request for capacity, as Reason.Text.
const (
	noNodeInTime         = "no node had room for the placeholder pod in time"
	notProvisionedInTime = "the ProvisioningRequest was not provisioned in time"
	notAccepted          = "no autoscaler accepted the ProvisioningRequest"
	notEvictedInTime     = "the pod was not evicted in time, so the request for capacity was deleted"
	roomWasNeeded        = "a pod on the node of the placeholder pod needed the room"
)

// A Release is the reason for which a request for capacity is deleted. Its text is a stable name for logs.
type Release string

// The reasons to delete a request for capacity.
const (
	ReleaseGone     Release = "PodGone"     // the pod that it is for does not exist any more, or was evicted
	ReleaseUnwanted Release = "NotNeeded"   // the pod is not going to be evicted for a larger size
	ReleaseOutgrown Release = "SizeChanged" // the replacement needs more than what was asked for
	ReleaseExpired  Release = "Expired"     // it was not provided in time, or the pod was not evicted in time
	ReleaseFailed   Release = "Failed"      // the autoscaler reports that it cannot provide it
	ReleaseNeeded   Release = "RoomNeeded"  // a resize of another pod on its node needs the room
	ReleaseOff      Release = "SwitchedOff" // no capacity is asked for any more
)

// A Step creates or deletes one request for capacity.
type Step struct {
	Pod        *cluster.Pod             // the pod that is going to be evicted; nil if a request for an unknown pod is deleted
	Autoscaler *cluster.Autoscaler      // nil if Pod is nil
	Size       cluster.Resources        // what the replacement requests
	Kind       cluster.RequestKind      // of the request
	Request    *cluster.CapacityRequest // the one to delete; nil if one is created
	Release    Release                  // why it is deleted

	failure    string // why the request for capacity has failed; "" if it has not
	unanswered bool   // no autoscaler has accepted the ProvisioningRequest
}

func requestOf(placeholder *cluster.Pod) *cluster.CapacityRequest {
	r := cluster.CapacityRequest{
		Key: placeholder.Key, UID: placeholder.UID, Kind: cluster.PlaceholderPod, Created: placeholder.Created, Node: placeholder.Node, Size: change.Total(placeholder, nil),
	}
	if r.Node != "" {
		r.State = cluster.RequestProvided
	}
	return &r
}

// failureOf returns why a request has failed or was not provided in time.
func failureOf(r *cluster.CapacityRequest) string {
	switch {
	case r.State == cluster.RequestFailed:
		return r.Text
	case r.State == cluster.RequestProvided:
		return notEvictedInTime
	case r.Kind == cluster.PlaceholderPod:
		return noNodeInTime
	case r.State == cluster.RequestAccepted:
		return notProvisionedInTime
	}
	return notAccepted
}
