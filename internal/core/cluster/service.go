// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package cluster

// A Service is a Kubernetes Service, as far as the search for a metrics server needs it.
type Service struct {
	Key
	Labels map[string]string
	Ports  []ServicePort
}

// A ServicePort is a port of a Service.
type ServicePort struct {
	Name   string // "" if the Service has one port
	Number int32
}
