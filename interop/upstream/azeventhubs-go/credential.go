// Package credential stands in for the one that tests of azeventhubs get credentials from:
// web tokens, which the server's key has signed.
package credential

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// NewOptions is named by callers of New.
type NewOptions struct{}

// New makes a credential.
func New(*NewOptions) (azcore.TokenCredential, error) {
	return signer{}, nil
}

type signer struct{}

func (signer) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ends := time.Now().Add(time.Hour)
	text := base64.RawURLEncoding.EncodeToString
	claims := fmt.Sprintf(`{"exp":%d,"aud":"https://eventhubs.azure.net"}`, ends.Unix())
	signed := text([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + text([]byte(claims))
	mac := hmac.New(sha256.New, []byte(os.Getenv("STEADFAST_KEY")))
	mac.Write([]byte(signed))
	token := signed + "." + text(mac.Sum(nil))
	return azcore.AccessToken{Token: token, ExpiresOn: ends.UTC()}, nil
}

// WebSockets are looked for at port 443, which not everyone may open.
func init() {
	transport := http.DefaultTransport.(*http.Transport)
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if host, found := strings.CutSuffix(address, ":443"); found {
			address = net.JoinHostPort(host, os.Getenv("STEADFAST_HTTP"))
		}
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, address)
	}
}
