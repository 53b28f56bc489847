// Copyright The podfit Authors
// SPDX-License-Identifier: Apache-2.0

package webhook

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// How many connections there may be. Each takes some 50 KiB. An API server uses one or two.
const (
	maxConnections     = 500
	maxConnectionsOfIP = 100
)

// connections bounds how many connections there are. When there are too many, one of the address with the most of them is
// closed: the oldest one that has no request under way, else the new one. So those who only hold connections lose them, and
// the API server, which has few and uses them, does not.
type connections struct {
	mu   sync.Mutex
	all  int
	byIP map[string]*ofIP
}

// ofIP are the connections of one address.
type ofIP struct {
	count int
	idle  list.List // of net.Conn, the one that is idle for the longest time in front
	place map[net.Conn]*list.Element
}

// note is called when a connection changes its state. It is the ConnState of the HTTP server.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ip := addressOf(conn)
	of := c.byIP[ip]
	switch state {
	case http.StateNew:
		if of == nil {
			of = &ofIP{place: make(map[net.Conn]*list.Element)}
			if c.byIP == nil {
				c.byIP = make(map[string]*ofIP)
			}
			c.byIP[ip] = of
		}
		of.count++
		c.all++
		of.place[conn] = of.idle.PushBack(conn)
		c.makeRoom(of)
	case http.StateActive:
		of.busy(conn)
	case http.StateIdle:
		of.busy(conn)
		of.place[conn] = of.idle.PushBack(conn)
	case http.StateClosed, http.StateHijacked:
		if of == nil {
			return
		}
		of.busy(conn)
		of.count--
		c.all--
		if of.count == 0 {
			delete(c.byIP, ip)
		}
	}
}

func (o *ofIP) busy(conn net.Conn) {
	if e := o.place[conn]; e != nil {
		o.idle.Remove(e)
		delete(o.place, conn)
	}
}

// makeRoom closes a connection if there are too many, after an address has made one. Its end is noted when the server has
// noticed it; until then it counts.
func (c *connections) makeRoom(of *ofIP) {
	if of.count <= maxConnectionsOfIP && c.all <= maxConnections {
		return
	}
	newest := of.idle.Back()
	if of.count <= maxConnectionsOfIP {
		for _, other := range c.byIP {
			if other.count > of.count {
				of = other
			}
		}
	}
	victim := of.idle.Front()
	if victim == nil && c.all > 2*maxConnections {
		victim = newest
	}
	if victim == nil {
		return
	}
	conn := victim.Value.(net.Conn)
	c.byIP[addressOf(conn)].busy(conn) // so that it is not chosen again
	hangUp(conn)
}

// hangUp closes a connection without a word, which could take seconds.
func hangUp(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	_ = conn.Close()
}

func addressOf(conn net.Conn) string {
	host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
	if err != nil {
		return conn.RemoteAddr().String()
	}
	return host
}
