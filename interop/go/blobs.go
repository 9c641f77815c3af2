package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
)

var now = context.Background()

func box(s server) *container.Client {
	own := value(container.NewClientFromConnectionString(s.blobs(s.AccountKey), "box", nil))
	value(own.Create(now, nil))
	return own
}

func refusedAs(err error, code bloberror.Code) {
	check(bloberror.HasCode(err, code), "%s was expected, not %v", code, err)
}

// What a call says about its error.
func problem[T any](_ T, err error) error {
	return err
}

func upload(own *container.Client, name string, body []byte) *blockblob.Client {
	client := own.NewBlockBlobClient(name)
	value(client.UploadBuffer(now, body, nil))
	return client
}

func download(client *blockblob.Client, options *blob.DownloadStreamOptions) []byte {
	stream := value(client.DownloadStream(now, options))
	defer stream.Body.Close()
	return value(io.ReadAll(stream.Body))
}

func noBody() io.ReadSeekCloser {
	return streaming.NopCloser(bytes.NewReader(nil))
}

func allBytes(times int) []byte {
	one := make([]byte, 256)
	for number := range one {
		one[number] = byte(number)
	}
	return bytes.Repeat(one, times)
}

var unlessThere = &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}}

func blobsWithBodies(s server) {
	own := box(s)
	refusedAs(problem(own.Create(now, nil)), bloberror.ContainerAlreadyExists)
	body := allBytes(8192)
	client := own.NewBlockBlobClient("houses/42 ü.json")
	written := value(client.Upload(now, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{
		Metadata:    map[string]*string{"House": to.Ptr("42")},
		HTTPHeaders: &blob.HTTPHeaders{BlobContentType: to.Ptr("application/json"), BlobContentLanguage: to.Ptr("de")},
	}))
	check(bytes.Equal(download(client, nil), body), "the body")
	part := download(client, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: 300_000, Count: 7}, RangeGetContentMD5: to.Ptr(true)})
	same(part, body[300_000:300_007], "a range")
	found := value(client.GetProperties(now, nil))
	same(*found.ContentLength, int64(len(body)), "the length")
	same(*found.ETag, *written.ETag, "the tag")
	same(*found.ContentType, "application/json", "the type")
	same(*found.ContentLanguage, "de", "the language")
	same(len(found.ContentMD5), 16, "the digest")
	same(len(found.Metadata), 1, "the metadata")
	for _, house := range found.Metadata {
		same(*house, "42", "the metadata")
	}
	refusedAs(problem(client.Upload(now, noBody(), &blockblob.UploadOptions{AccessConditions: unlessThere})), bloberror.BlobAlreadyExists)
	value(client.Upload(now, noBody(), nil))
	same(len(download(client, nil)), 0, "an empty body")
	value(client.Delete(now, nil))
	refusedAs(problem(client.DownloadStream(now, nil)), bloberror.BlobNotFound)
	refusedAs(problem(client.GetProperties(now, nil)), bloberror.BlobNotFound)
	most := make([]byte, 16<<20)
	read := make([]byte, 16<<20)
	large := own.NewBlockBlobClient("most")
	value(large.UploadBuffer(now, most, nil))
	same(value(large.DownloadBuffer(now, read, nil)), int64(len(most)), "the length")
	check(bytes.Equal(read, most), "the body")
	again := upload(own, "stream", nil)
	value(again.UploadStream(now, bytes.NewReader(body), &blockblob.UploadStreamOptions{BlockSize: 1 << 18, Concurrency: 3}))
	check(bytes.Equal(download(again, nil), body), "a body from a stream")
}

func blobsInBlocks(s server) {
	own := box(s)
	body := append(allBytes(80_000), "the end"...)
	client := own.NewBlockBlobClient("large")
	options := blockblob.UploadBufferOptions{BlockSize: 1 << 20, Concurrency: 4, Metadata: map[string]*string{"House": to.Ptr("42")}}
	// Bodies over 256 MiB go in blocks by themselves; smaller ones where they are staged.
	var ids []string
	for start := 0; start < len(body); start += int(options.BlockSize) {
		id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%06d", start>>20))
		part := body[start:min(start+int(options.BlockSize), len(body))]
		value(client.StageBlock(now, id, streaming.NopCloser(bytes.NewReader(part)), nil))
		ids = append(ids, id)
	}
	value(client.CommitBlockList(now, ids, &blockblob.CommitBlockListOptions{Metadata: options.Metadata}))
	read := make([]byte, len(body))
	value(client.DownloadBuffer(now, read, &blob.DownloadBufferOptions{BlockSize: 1 << 20, Concurrency: 4}))
	check(bytes.Equal(read, body), "the body")
	list := value(client.GetBlockList(now, blockblob.BlockListTypeAll, nil))
	same(len(list.CommittedBlocks), 20, "committed blocks")
	same(len(list.UncommittedBlocks), 0, "staged blocks")
	part := download(client, &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: (1 << 20) - 3, Count: 6}})
	same(part, body[(1<<20)-3:(1<<20)+3], "a range over two blocks")
	more := base64.StdEncoding.EncodeToString([]byte("more!!"))
	value(client.StageBlock(now, more, streaming.NopCloser(bytes.NewReader([]byte(" and more"))), nil))
	list = value(client.GetBlockList(now, blockblob.BlockListTypeUncommitted, nil))
	same(*list.UncommittedBlocks[0].Size, int64(9), "the staged block")
	value(client.CommitBlockList(now, append(ids, more), nil))
	check(bytes.Equal(download(client, nil), append(body, " and more"...)), "the longer body")
	same(len(value(client.GetProperties(now, nil)).Metadata), 0, "the metadata")
	none := base64.StdEncoding.EncodeToString([]byte("none!!"))
	refusedAs(problem(client.CommitBlockList(now, []string{none}, nil)), bloberror.InvalidBlockList)
	// One request, larger than what the server holds of a body.
	whole := make([]byte, 40<<20)
	check(bytes.Equal(download(upload(own, "whole", whole), nil), whole), "the whole body")
}

func leasesAndFolders(s server) {
	own := box(s)
	for _, name := range []string{"a/1", "a/2", "b", "c/d/1"} {
		upload(own, name, nil)
	}
	walk := func(prefix string) []string {
		var names []string
		pages := own.NewListBlobsHierarchyPager("/", &container.ListBlobsHierarchyOptions{Prefix: &prefix})
		for pages.More() {
			page := value(pages.NextPage(now))
			for _, each := range page.Segment.BlobPrefixes {
				names = append(names, *each.Name)
			}
			for _, each := range page.Segment.BlobItems {
				names = append(names, *each.Name)
			}
		}
		return names
	}
	same(walk(""), []string{"a/", "c/", "b"}, "the folders")
	same(walk("a/"), []string{"a/1", "a/2"}, "a folder")
	client := own.NewBlockBlobClient("b")
	held := value(lease.NewBlobClient(client, nil))
	value(held.AcquireLease(now, 15, nil))
	found := value(client.GetProperties(now, nil))
	same(*found.LeaseState, lease.StateTypeLeased, "the state")
	same(*found.LeaseStatus, lease.StatusTypeLocked, "the status")
	same(*found.LeaseDuration, lease.DurationTypeFixed, "the duration")
	other := value(lease.NewBlobClient(client, nil))
	refusedAs(problem(other.AcquireLease(now, 15, nil)), bloberror.LeaseAlreadyPresent)
	refusedAs(problem(client.SetMetadata(now, nil, nil)), bloberror.LeaseIDMissing)
	with := func(id *string) *blob.AccessConditions {
		return &blob.AccessConditions{LeaseAccessConditions: &blob.LeaseAccessConditions{LeaseID: id}}
	}
	former := *held.LeaseID()
	value(client.Upload(now, noBody(), &blockblob.UploadOptions{AccessConditions: with(&former)}))
	value(held.ChangeLease(now, "c0ffee00-0000-4000-8000-000000000001", nil))
	value(held.RenewLease(now, nil))
	late := value(lease.NewBlobClient(client, &lease.BlobClientOptions{LeaseID: &former}))
	refusedAs(problem(late.RenewLease(now, nil)), bloberror.LeaseIDMismatchWithLeaseOperation)
	refusedAs(problem(client.SetMetadata(now, nil, &blob.SetMetadataOptions{AccessConditions: with(&former)})), bloberror.LeaseIDMismatchWithBlobOperation)
	broken := value(held.BreakLease(now, &lease.BlobBreakOptions{BreakPeriod: to.Ptr[int32](0)}))
	same(*broken.LeaseTime, int32(0), "what is left of it")
	same(*value(client.GetProperties(now, nil)).LeaseState, lease.StateTypeBroken, "the state")
	again := value(lease.NewBlobClient(client, nil))
	value(again.AcquireLease(now, -1, nil))
	same(*value(client.GetProperties(now, nil)).LeaseDuration, lease.DurationTypeInfinite, "the duration")
	value(again.ReleaseLease(now, nil))
	value(client.Delete(now, nil))
}

func listsAndConditions(s server) {
	own := box(s)
	var expected []string
	for number := range 25 {
		name := fmt.Sprintf("a/%02d", number)
		options := &blockblob.UploadOptions{Metadata: map[string]*string{"n": to.Ptr(fmt.Sprint(number))}}
		value(own.NewBlockBlobClient(name).Upload(now, noBody(), options))
		expected = append(expected, name)
	}
	upload(own, "b/ü & <x>", []byte("x"))
	expected = append(expected, "b/ü & <x>")
	list := func(options container.ListBlobsFlatOptions) []*container.BlobItem {
		var items []*container.BlobItem
		for pages := own.NewListBlobsFlatPager(&options); pages.More(); {
			items = append(items, value(pages.NextPage(now)).Segment.BlobItems...)
		}
		return items
	}
	var names []string
	for _, item := range list(container.ListBlobsFlatOptions{MaxResults: to.Ptr[int32](10)}) {
		names = append(names, *item.Name)
	}
	same(names, expected, "the names")
	some := list(container.ListBlobsFlatOptions{Prefix: to.Ptr("a/1"), Include: container.ListBlobsInclude{Metadata: true}})
	same(len(some), 10, "the blobs")
	for number, item := range some {
		same(*item.Metadata["n"], fmt.Sprint(10+number), "the metadata")
	}
	client := own.NewBlockBlobClient("a/00")
	listed := list(container.ListBlobsFlatOptions{Prefix: to.Ptr("a/00")})[0]
	tag := value(client.GetProperties(now, nil)).ETag
	// Lists have it without quotes, and the store of checkpoints gives it back like that.
	same(strings.Trim(string(*tag), `"`), string(*listed.Properties.ETag), "the tag")
	unchanged := &blob.SetMetadataOptions{AccessConditions: &blob.AccessConditions{
		ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: listed.Properties.ETag}}}
	value(client.SetMetadata(now, map[string]*string{"n": to.Ptr("new")}, unchanged))
	refusedAs(problem(client.SetMetadata(now, nil, unchanged)), bloberror.ConditionNotMet)
	missing := own.NewBlockBlobClient("missing")
	refusedAs(problem(missing.SetMetadata(now, nil, nil)), bloberror.BlobNotFound)
}

func signatures(s server) {
	own := box(s)
	name := "a b/ü"
	upload(own, name, []byte("text"))
	key := value(azblob.NewSharedKeyCredential(s.Account, s.AccountKey))
	wrong := value(azblob.NewSharedKeyCredential(s.Account, "d3Jvbmc="))
	later := time.Now().UTC().Add(5 * time.Minute)
	sign := func(key *azblob.SharedKeyCredential, change func(*sas.BlobSignatureValues)) string {
		values := sas.BlobSignatureValues{
			ContainerName: "box", BlobName: name, Permissions: "r", ExpiryTime: later, Protocol: sas.ProtocolHTTPSandHTTP,
		}
		change(&values)
		query := value(values.SignWithSharedKey(key))
		return query.Encode()
	}
	reader := func(token, name string) *blockblob.Client {
		address := fmt.Sprintf("%s/box/%s?%s", s.blobURL(), url.PathEscape(name), token)
		return value(blockblob.NewClientWithNoCredential(address, nil))
	}
	good := sign(key, func(*sas.BlobSignatureValues) {})
	same(string(download(reader(good, name), nil)), "text", "the body")
	for _, bad := range []string{
		sign(key, func(values *sas.BlobSignatureValues) { values.ExpiryTime = time.Now().UTC().Add(-time.Minute) }),
		sign(key, func(values *sas.BlobSignatureValues) { values.StartTime = later }),
		sign(key, func(values *sas.BlobSignatureValues) { values.BlobName = "other" }),
		sign(wrong, func(*sas.BlobSignatureValues) {}),
	} {
		refusedAs(problem(reader(bad, name).DownloadStream(now, nil)), bloberror.AuthenticationFailed)
	}
	for _, less := range []string{
		sign(key, func(values *sas.BlobSignatureValues) { values.Permissions = "w" }),
		sign(key, func(values *sas.BlobSignatureValues) { values.Protocol = sas.ProtocolHTTPS }),
		sign(key, func(values *sas.BlobSignatureValues) { values.IPRange = sas.IPRange{Start: net.IPv4(10, 0, 0, 1)} }),
	} {
		refusedAs(problem(reader(less, name).DownloadStream(now, nil)), bloberror.AuthorizationPermissionMismatch)
	}
	here := sign(key, func(values *sas.BlobSignatureValues) { values.IPRange = sas.IPRange{Start: net.IPv4(127, 0, 0, 1)} })
	same(string(download(reader(here, name), nil)), "text", "the body")
	// The container's own signature: read, list and create.
	address := value(own.GetSASURL(sas.ContainerPermissions{Read: true, List: true, Create: true}, later, nil))
	whole := value(container.NewClientWithNoCredential(address, nil))
	page := value(whole.NewListBlobsFlatPager(nil).NextPage(now))
	same(*page.Segment.BlobItems[0].Name, name, "the list")
	value(whole.NewBlockBlobClient("new").Upload(now, noBody(), nil))
	refusedAs(problem(whole.NewBlockBlobClient("new").Upload(now, noBody(), nil)), bloberror.BlobAlreadyExists)
	values := sas.AccountSignatureValues{
		Protocol: sas.ProtocolHTTPSandHTTP, ExpiryTime: later, Permissions: "rwdlc", ResourceTypes: "co",
	}
	token := value(values.SignWithSharedKey(key))
	service := value(azblob.NewClientWithNoCredential(s.blobURL()+"?"+token.Encode(), nil))
	value(service.CreateContainer(now, "second", nil))
	value(service.UploadBuffer(now, "second", "x", []byte("y"), nil))
	value(service.DeleteContainer(now, "second", nil))
}

func aBadAccountKey(s server) {
	own := value(container.NewClientFromConnectionString(s.blobs("d3Jvbmcga2V5"), "box", nil))
	refusedAs(problem(own.Create(now, nil)), bloberror.AuthenticationFailed)
}

// A body whose pages of 4 KiB have their own numbers in every 8 bytes.
type pattern struct {
	size, at int64
}

func patternPart(start, end int64) []byte {
	const page = 4096
	var pages []byte
	for number := start / page; number <= end/page; number++ {
		pages = append(pages, bytes.Repeat(binary.BigEndian.AppendUint64(nil, uint64(number)), page/8)...)
	}
	first := start - start%page
	return pages[start-first : end-first]
}

func (p *pattern) Read(buffer []byte) (int, error) {
	end := min(p.at+int64(len(buffer)), p.size)
	if end == p.at {
		return 0, io.EOF
	}
	count := copy(buffer, patternPart(p.at, end))
	p.at = end
	return count, nil
}

func (p *pattern) Seek(offset int64, whence int) (int64, error) {
	p.at = offset + map[int]int64{io.SeekStart: 0, io.SeekCurrent: p.at, io.SeekEnd: p.size}[whence]
	return p.at, nil
}

func (p *pattern) Close() error {
	return nil
}

// The next bytes of a body are those of the pattern.
func follows(body io.Reader, start, count int64) {
	buffer := make([]byte, 1<<20)
	for at := start; at < start+count; at += int64(len(buffer)) {
		buffer = buffer[:min(int64(len(buffer)), start+count-at)]
		value(io.ReadFull(body, buffer))
		check(bytes.Equal(buffer, patternPart(at, at+int64(len(buffer)))), "the bytes from %d on", at)
	}
}

// Whole and in blocks; read whole, by range and by version, and slowly by several at once.
func blobsOf256Mebibytes(s server) {
	const most = 256 << 20
	own := box(s)
	for _, isWhole := range []bool{true, false} {
		client := own.NewBlockBlobClient(fmt.Sprint("whole ", isWhole))
		var tag *azcore.ETag
		if isWhole {
			tag = value(client.Upload(now, &pattern{size: most}, nil)).ETag
		} else {
			options := &blockblob.UploadStreamOptions{BlockSize: 4 << 20, Concurrency: 2}
			tag = value(client.UploadStream(now, &pattern{size: most}, options)).ETag
		}
		same(*value(client.GetProperties(now, nil)).ContentLength, int64(most), "the length")
		blocks := len(value(client.GetBlockList(now, blockblob.BlockListTypeAll, nil)).CommittedBlocks)
		same(blocks, map[bool]int{true: 0, false: 64}[isWhole], "the blocks")
		stream := value(client.DownloadStream(now, nil))
		follows(stream.Body, 0, most)
		must(stream.Body.Close())
		unchanged := &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfMatch: tag}}
		ranged := func(start int64) *blob.DownloadStreamOptions {
			return &blob.DownloadStreamOptions{Range: blob.HTTPRange{Offset: start, Count: 7}, AccessConditions: unchanged}
		}
		for _, start := range []int64{0, 1, (1 << 18) - 3, (4 << 20) - 3, most/2 + 5, most - 7} {
			same(download(client, ranged(start)), patternPart(start, start+7), "a range")
		}
		var slow []io.ReadCloser
		for range 8 {
			slow = append(slow, value(client.DownloadStream(now, nil)).Body)
		}
		for at := int64(0); at < 4<<20; at += 1 << 20 {
			for _, each := range slow {
				follows(each, at, 1<<20)
			}
		}
		for _, each := range slow {
			must(each.Close())
		}
		refusedAs(problem(client.DownloadStream(now, ranged(most))), bloberror.InvalidRange)
		value(client.SetMetadata(now, map[string]*string{"n": to.Ptr("new")}, &blob.SetMetadataOptions{AccessConditions: unchanged}))
		refusedAs(problem(client.DownloadStream(now, ranged(0))), bloberror.ConditionNotMet)
		value(client.Delete(now, nil))
	}
}

var blobScenarios = []scenario{
	{"blobs_with_bodies", blobsWithBodies},
	{"blobs_in_blocks", blobsInBlocks},
	{"blobs_of_256_mebibytes", blobsOf256Mebibytes},
	{"leases_and_folders", leasesAndFolders},
	{"lists_and_conditions", listsAndConditions},
	{"signatures", signatures},
	{"a_bad_account_key", aBadAccountKey},
}
