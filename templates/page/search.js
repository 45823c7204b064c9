const search = document.getElementById('search');
if (search) search.addEventListener('input', () => {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of document.querySelectorAll('[data-text]')) {
    const text = item.dataset.text.toLowerCase();
    item.hidden = !words.every(word => text.includes(word));
  }
});
const open = () => {
  const target = location.hash && document.getElementById(location.hash.slice(1));
  if (target && target.tagName === 'DETAILS') { target.open = true; target.scrollIntoView(); }
};
addEventListener('hashchange', open);
open();
